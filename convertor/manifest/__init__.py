"""manifest.json to frozen values: `kinds` checks one value, `keys` lists every key, `parse` reads a manifest."""
