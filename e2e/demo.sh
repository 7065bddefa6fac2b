#!/usr/bin/env bash
# What `make demo` does: the whole way from nothing to a page served by a
# WebServer. Every step prints the command, so that you can do it yourself.
set -euo pipefail
cd "$(dirname "$0")/.."

namespace=${NAMESPACE:-platform-operator-system}
img=${IMG:-platform-operator:dev}
digest=''
bold='' off=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\033[1m' off=$'\033[0m'; fi

step() { printf '\n%s%s%s\n' "$bold" "$1" "$off"; }
# On standard error: what a command prints is not always for the terminal.
run() { printf '  $ %s\n' "$*" >&2; "$@"; }
inside() { run bin/cluster exec -- "$@"; }

if [ "${CLUSTER:-}" = current ]; then
  step '1. The cluster of your kubeconfig'
else
  step '1. A real Kubernetes on this machine (the first time builds it: some minutes)'
fi
run bin/cluster up --dns=false

if [ "${CLUSTER:-}" = current ]; then
  if [ "$img" = platform-operator:dev ]; then
    echo 'CLUSTER=current needs an image that this cluster can pull: make image-push demo CLUSTER=current IMG=registry/name:tag' >&2
    exit 1
  fi
else
  step '2. The operator, as an image'
  run bin/cluster load platform-operator:dev --binary bin/platform-operator | tee bin/platform-operator.digest
  # The tag dev names another image after each build: its digest rolls the pods.
  digest=$(tail -n 1 bin/platform-operator.digest)
fi

step '3. The operator, installed'
helm=$(bin/cluster tool helm)
inside "$helm" upgrade --install platform-operator charts/platform-operator \
  --namespace "$namespace" --create-namespace --hide-notes \
  --set-string "image.repository=${img%:*}" --set-string "image.tag=${img##*:}" --set-string "image.digest=$digest"
inside kubectl -n "$namespace" rollout status deployment/platform-operator --timeout=3m || {
  echo 'The operator does not start. Its pods and the end of its log:' >&2
  inside kubectl -n "$namespace" get pods -o wide
  inside kubectl -n "$namespace" logs deployment/platform-operator --tail=20
  exit 1
} >&2

step '4. Five lines of YAML a kind'
run cat config/samples/webserver.yaml
inside kubectl apply -k config/samples
kinds="$(bin/cluster exec -- kubectl api-resources --categories=platform --output name | paste -sd, -)"
inside kubectl wait --for=condition=Ready --all "$kinds" --timeout=3m

step '5. What came of them'
inside kubectl get platform -o wide
inside kubectl get deployments,services,pods -o wide

node=$(bin/cluster exec -- kubectl get nodes -o 'jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}')
page() { inside curl --fail --silent --show-error --max-time 10 --retry 5 --retry-connrefused "http://$node:$1"; }

step '6. WebServer: the page, from outside of the pods'
page 30010

step '7. ImmortalContainer: delete the pod; status.startTimes counts the new one'
pod=example-immortalcontainer-immortalpod
born() { bin/cluster exec -- kubectl get immortalcontainer example-immortalcontainer -o 'jsonpath={.status.startTimes}'; }
starts=$(born)
inside kubectl delete pod "$pod"
inside kubectl wait --for="jsonpath={.status.startTimes}=$((starts + 1))" immortalcontainer/example-immortalcontainer --timeout=1m
inside kubectl wait --for=condition=Ready immortalcontainer/example-immortalcontainer --timeout=1m
inside kubectl get immortalcontainer -o wide

step '8. DemoApplication: the page on its own port'
page 30002

step '9. Memcached: its nodes, and the statistics of one'
inside kubectl get memcached example-memcached -o 'jsonpath={.status.nodes}{"\n"}'
ip=$(bin/cluster exec -- kubectl get pods -l memcached_cr=example-memcached -o 'jsonpath={.items[0].status.podIP}')
# bash speaks TCP by itself.
inside bash -c "exec 3<>/dev/tcp/$ip/11211; printf 'stats\r\nquit\r\n' >&3; grep -aE 'version|limit_maxbytes|curr_connections' <&3"

# visit requests the page of the WebServer five times a second, for three minutes at most,
# and writes a line for each answer.
answers=$(mktemp)
visitor=''
trap '[ -z "$visitor" ] || kill "$visitor" 2>/dev/null || true; rm -f "$answers"' EXIT
visit() {
  bin/cluster exec -- timeout 180 bash -c \
    'while sleep 0.2; do curl -s -o /dev/null -m 5 -w "%{http_code}\n" "$0" || true; done' "http://$node:30010" >"$answers" &
  visitor=$!
}
visited() {
  kill "$visitor" 2>/dev/null && wait "$visitor" 2>/dev/null || true
  visitor=''
  printf '  %d requests meanwhile, %d of them failed\n' "$(wc -l <"$answers")" "$(grep -cv '^200$' "$answers" || true)"
}
patch() { inside kubectl patch webserver webserver-sample --type=merge --patch "{\"spec\":$1}"; }
reason() { inside kubectl wait --for="jsonpath={.status.conditions[?(@.type==\"Ready\")].reason}=$1" webserver/webserver-sample --timeout=2m; }

step '10. An image that does not exist: the operator returns to the revision that works, and says why'
visit
patch '{"image":"nginx:1.23.100"}'
reason RolledBack
inside bin/kubectl-platform status webserver/webserver-sample || true # 1: it is not ready
visited
patch '{"image":"nginx:1.23.1"}'
reason Serving

step '11. A configuration with a typing error: nginx tests it before it serves'
visit
patch '{"config":{"inline":"location /health { retrun 200; }"}}'
inside kubectl wait --for=condition=ConfigValid=False webserver/webserver-sample --timeout=2m
inside kubectl get webserver webserver-sample -o 'jsonpath={.status.conditions[?(@.type=="ConfigValid")].message}{"\n"}'
visited
patch '{"config":{"inline":"location /health { return 200; }"}}'
reason Serving
# A pod that is being ended serves the earlier configuration until no request reaches it.
for _ in {1..60}; do
  pods=$(bin/cluster exec -- kubectl get pods --selector=webserver_cr=webserver-sample --output=name | wc -l)
  if [ "$pods" -le 3 ]; then break; fi
  sleep 1
done
page 30010/health

step '12. A Service that somebody has led elsewhere: the operator repairs it'
inside kubectl patch service webserver-sample-service --type=merge --patch '{"spec":{"selector":{"app":"another"}}}'
inside kubectl wait --for='jsonpath={.spec.selector.app}=webserver' service/webserver-sample-service --timeout=1m
inside kubectl get events --field-selector 'involvedObject.name=webserver-sample,reason=Restored' \
  --sort-by=.lastTimestamp -o 'custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message'

step '13. What the dashboards read'
inside kubectl -n "$namespace" create serviceaccount demo-reader --dry-run=client -o yaml | inside kubectl apply -f -
inside kubectl create clusterrolebinding platform-operator-demo-reader --clusterrole=platform-operator-metrics-reader \
  --serviceaccount="$namespace:demo-reader" --dry-run=client -o yaml | inside kubectl apply -f -
# The API server needs a moment to know of it, and the operator remembers a denial for longer.
for _ in $(seq 20); do
  bin/cluster exec -- kubectl auth can-i get /metrics --quiet --as="system:serviceaccount:$namespace:demo-reader" && break
  sleep 0.5
done
token=$(bin/cluster exec -- kubectl -n "$namespace" create token demo-reader)
# Only the leader has series of objects.
leader=$(bin/cluster exec -- kubectl -n "$namespace" get lease platform-operator -o 'jsonpath={.spec.holderIdentity}')
ip=$(bin/cluster exec -- kubectl -n "$namespace" get pod "${leader%%_*}" -o 'jsonpath={.status.podIP}')
echo "  \$ curl https://$ip:8443/metrics" >&2
bin/cluster exec -- curl -sk -m 10 -H "Authorization: Bearer $token" "https://$ip:8443/metrics" |
  grep -E '^platform_operator_(objects|rollouts_failed_total|object_conditions\{.*Ready.*"True"|drift)' | sed -n 1,20p

in='bin/cluster exec -- ' stop='make demo-down'
dns=$'  bin/cluster up   # adds DNS, so that Services have names; the demo works without\n'
if [ "${CLUSTER:-}" = current ]; then
  in='' dns='' stop='kubectl delete -k config/samples && make uninstall CLUSTER=current'
fi
cat <<EOF

${bold}The cluster keeps running. Things to try:${off}
  ${in}kubectl explain webserver.spec
  ${in}kubectl scale webserver webserver-sample --replicas=4
  ${in}kubectl delete service webserver-sample-service   # the operator creates it again
  ${in}kubectl get events --field-selector involvedObject.name=webserver-sample
  ${in}kubectl -n $namespace logs deployment/platform-operator
$dns${bold}To remove everything:${off}
  $stop
EOF
