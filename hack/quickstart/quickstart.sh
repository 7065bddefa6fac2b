#!/usr/bin/env bash
# quickstart.sh kind|k3d|minikube installs the operator into a cluster of that program, which
# it creates if need be, and applies a first WebServer. It needs docker, kubectl and the
# program, and changes neither other clusters nor the current context.
set -euo pipefail
cd "$(dirname "$0")/../.."

name=platform-operator
image=platform-operator:quickstart
say() { printf '==> %s\n' "$*"; }

case "${1:-}" in
kind)
	context=kind-$name
	exists() { kind get clusters | grep -qx "$name"; }
	create() { kind create cluster --name "$name"; }
	load() { kind load docker-image "$image" --name "$name"; }
	remove="kind delete cluster --name $name"
	;;
k3d)
	context=k3d-$name
	exists() { k3d cluster get "$name" >/dev/null 2>&1; }
	create() { k3d cluster create "$name" --kubeconfig-switch-context=false; }
	load() { k3d image import "$image" --cluster "$name"; }
	remove="k3d cluster delete $name"
	;;
minikube)
	context=$name
	exists() { minikube status --profile "$name" >/dev/null 2>&1; }
	create() { minikube start --profile "$name" --driver docker --keep-context; }
	load() { minikube image load "$image" --profile "$name"; }
	remove="minikube delete --profile $name"
	;;
*)
	echo 'usage: quickstart.sh kind|k3d|minikube' >&2
	exit 2
	;;
esac
for need in docker kubectl "$1"; do
	command -v "$need" >/dev/null || { echo "quickstart: $need is missing; install it first" >&2; exit 1; }
done
kubectl() { command kubectl --context "$context" "$@"; }

say 'building the image; takes some minutes the first time'
docker build --tag "$image" .
if ! exists; then
	say "creating a cluster with $1"
	before=$(command kubectl config current-context 2>/dev/null || true)
	create
	# kind switches to the new context.
	[ -z "$before" ] || command kubectl config use-context "$before" >/dev/null
fi
say 'loading the image into the cluster'
load
say 'installing the operator'
kubectl kustomize config/default | sed "s|image: platform-operator:dev|image: $image|" | kubectl apply --server-side -f -
kubectl -n platform-operator-system rollout status deployment/platform-operator --timeout=5m
say 'a first WebServer'
kubectl apply -f config/samples/webserver.yaml
kubectl wait --for=condition=Ready --timeout=5m webserver/webserver-sample
kubectl get platform
echo
echo "try:     kubectl --context $context explain webserver.spec"
echo "remove:  $remove"
