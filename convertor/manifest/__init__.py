"""manifest.json to frozen values.

`kinds` checks one value, `keys` lists every key, `reader` reads a block against a table, `parse` makes the Manifest.
"""
