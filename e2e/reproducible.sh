#!/usr/bin/env bash
# Builds the programs twice, in folders that have nothing in common but the
# sources, and compares the bytes. The second folder has only what .dockerignore
# lets through: so it is the build of the image as well.
set -euo pipefail
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
one=$tmp/one two=$tmp/in/another/place
mkdir -p "$one" "$two" "$tmp/home"

# The files of the next commit.
comm -z -23 <(git ls-files -z --cached --others --exclude-standard | LC_ALL=C sort -zu) \
  <(git ls-files -z --deleted | LC_ALL=C sort -zu) |
  tar --create --null --files-from=- | tar --extract --directory="$one"
(cd "$one" && sed -n 's/^!//p' .dockerignore | tar --create --exclude='*_test.go' --files-from=-) |
  tar --extract --directory="$two"

# The compiler's cache is shared: without -trimpath its entries are another
# folder's, and are not used.
cache=$(go env GOCACHE) modules=$(go env GOMODCACHE) env=$(go env GOENV)
ln -s "$modules" "$tmp/modules"
make -C "$one" build >/dev/null
HOME=$tmp/home GOPATH=$tmp/home/go GOMODCACHE=$tmp/modules GOCACHE=$cache GOENV=$env TZ=Asia/Kathmandu \
  make -C "$two" build >/dev/null

for program in platform-operator kubectl-platform; do
  cmp "$one/bin/$program" "$two/bin/$program" && continue
  echo 'the build is not reproducible: the same sources in two folders gave two programs. Is a flag of GO_BUILD in the Makefile gone?' >&2
  exit 1
done
if grep -qF 'text/template.(*state).evalField' "$one/bin/platform-operator" "$one/bin/kubectl-platform"; then
  echo 'a program executes templates, so that the linker keeps all exported methods: it is larger by a third (pkg/cli)' >&2
  exit 1
fi
sha256sum "$one/bin/platform-operator" | sed "s|  .*|  platform-operator $(go version "$one/bin/platform-operator" | sed 's/.*: //')|"
