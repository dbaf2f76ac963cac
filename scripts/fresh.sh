#!/usr/bin/env bash
# Prove the README in a bare Debian 12: its one line of system packages, then `make demo` and `make test`, twice each.
# Needs root and debootstrap. FRESH_MIRROR: a Debian mirror (default: debootstrap's own).
# FRESH_EXTRA: files of this machine to copy in at the same place (certificates, pip's configuration), if it needs any.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "fresh: needs root for debootstrap and chroot; run it with sudo" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "fresh: debootstrap is missing; apt-get install debootstrap" >&2; exit 1; }

packages=$(sed -n 's/.*apt-get install -y \(git make [^`]*\).*/\1/p' README.md | head -n 1)
[ -n "$packages" ] || { echo "fresh: README.md names no system packages" >&2; exit 1; }
root=$(mktemp -d -t fresh-debian-XXXXXX)

leave() {
    for mount in dev/shm dev/pts dev proc; do umount -l "$root/$mount" 2>/dev/null || true; done
    rm -rf --one-file-system "$root"
}
trap leave EXIT

echo "== a bare Debian 12 in $root"
chmod 755 "$root"  # it becomes / inside
debootstrap --variant=minbase bookworm "$root" ${FRESH_MIRROR:-} >"$root/debootstrap.log" 2>&1 ||
    { tail -n 5 "$root/debootstrap.log" >&2; exit 1; }
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs -o size=2g shm "$root/dev/shm"
cp /etc/resolv.conf "$root/etc/resolv.conf"
echo "127.0.0.1 localhost" >"$root/etc/hosts"  # debootstrap leaves it to the installer

inside() {
    chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${PIP_CERT:+PIP_CERT="$PIP_CERT"} DEBIAN_FRONTEND=noninteractive bash -c "$1"
}

echo "== README's system packages: $packages"
inside "apt-get update -qq && apt-get install -y -qq --no-install-recommends $packages >/dev/null"
# After the packages: installing ca-certificates writes the bundle anew.
for file in ${FRESH_EXTRA:-}; do
    mkdir -p "$root$(dirname "$file")" && cp -rL "$file" "$root$(dirname "$file")/"
done
git clone --quiet --no-hardlinks . "$root/srv/triton-convertor"
for command in "make demo" "make test" "make demo" "make test"; do
    echo "== $command"
    started=$SECONDS
    inside "cd /srv/triton-convertor && $command"
    echo "== $command: $((SECONDS - started)) s"
done
echo "fresh: passed"
