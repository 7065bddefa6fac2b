#!/usr/bin/env bash
# Writes dist/ from the programs in bin/release, which make release builds. The
# same commit gives the same bytes: no file contains a path, or a time other than the
# commit's.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${VERSION:?}" "${REGISTRY:?}" "${HELM:?}" "${KUBECTL:?}" "${CYCLONEDX:?}"
stage=bin/release/stage
rm -rf dist "$stage"
mkdir -p dist "$stage/install"
source=$(sed -n 's/^home: //p' charts/platform-operator/Chart.yaml)
created=$(git log -1 --format=%ct)
release() {
  bin/release/release "$@" -version "$VERSION" -registry "$REGISTRY" -source "$source" -created "$created" \
    -revision "$(git describe --always --abbrev=40 --dirty --exclude='*')" -programs bin/release -replaces "${REPLACES:-}"
}
# edit replaces a line, and fails if it does not exist.
edit() {
  grep -qxF "$2" "$1" || { echo "$1 has no line '$2'" >&2; exit 1; }
  sed -i "s|^$2\$|$3|" "$1"
}

digest=$(release image)

# The chart and the manifests install the image by its digest, so that their checksums
# cover it.
cp -r charts/platform-operator "$stage/"
edit "$stage/platform-operator/values.yaml" '  repository: ""' "  repository: $REGISTRY/platform-operator"
edit "$stage/platform-operator/values.yaml" '  tag: ""' "  tag: \"$VERSION\""
edit "$stage/platform-operator/values.yaml" '  digest: ""' "  digest: $digest"
find "$stage/platform-operator" -exec touch --no-dereference --date="@$created" {} +
"$HELM" package "$stage/platform-operator" --version "$VERSION" --app-version "$VERSION" --destination dist >/dev/null

printf '%s\n' 'resources: [../../../../config/default]' \
  "images: [{name: platform-operator, newName: $REGISTRY/platform-operator, digest: \"$digest\"}]" >"$stage/install/kustomization.yaml"
"$KUBECTL" kustomize "$stage/install" >dist/install.yaml
"$KUBECTL" kustomize config/crd >dist/crds.yaml

# Nothing is downloaded: the build has all modules.
GOPROXY=off "$CYCLONEDX" bin -json -std -licenses -assert-licenses -noserial -notimestamp -version "v$VERSION" \
  -output "dist/platform-operator-$VERSION.cdx.json" bin/release/platform-operator-linux-amd64 2>"$stage/sbom.log" ||
  { cat "$stage/sbom.log" >&2; exit 1; }

release pack
find dist -type f -exec chmod 644 {} + # libraries choose other modes
if [ -n "${SIGN_KEY:-}" ]; then
  ssh-keygen -q -Y sign -f "$SIGN_KEY" -n platform-operator dist/SHA256SUMS
fi
