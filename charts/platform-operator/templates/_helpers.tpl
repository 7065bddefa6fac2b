{{- define "platform-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* 41 characters leave room for the longest suffix, "-webhook-cert", and for the suffix of pod names. */}}
{{- define "platform-operator.fullname" -}}
{{- .Values.fullnameOverride | default (include "platform-operator.name" .) | trunc 41 | trimSuffix "-" -}}
{{- end -}}

{{/* The selector of the operator's pods. It must not match the pod of the release hook. */}}
{{- define "platform-operator.selectorLabels" -}}
app.kubernetes.io/component: manager
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/name: {{ include "platform-operator.name" . }}
{{- end -}}

{{- define "platform-operator.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/name: {{ include "platform-operator.name" . }}
app.kubernetes.io/part-of: platform-operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels of pods: those of the chart, and others of podLabels. The argument is a list: the root context, and the component. */}}
{{- define "platform-operator.podLabels" -}}
{{- $own := include "platform-operator.labels" (first .) | fromYaml -}}
{{- merge (dict "app.kubernetes.io/component" (last .)) $own (default dict (first .).Values.podLabels) | toYaml -}}
{{- end -}}

{{- define "platform-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "platform-operator.fullname" .) -}}
{{- else -}}
{{- required "set serviceAccount.name: with serviceAccount.create=false it names an account that exists" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The selector of config.watchNamespaces, or nothing: other namespaces may be those of another release. */}}
{{- define "platform-operator.watched" -}}
{{- with .Values.config.watchNamespaces -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: In
  values: {{ toJson . }}
{{- end -}}
{{- end -}}

{{/* Whether the account of the operator has its permissions: the condition of config/policy. */}}
{{- define "platform-operator.installed" -}}
authorizer.serviceAccount('{{ .Release.Namespace }}', '{{ include "platform-operator.serviceAccountName" . }}').group('coordination.k8s.io').resource('leases') .namespace('{{ .Release.Namespace }}').name('platform-operator').check('update').allowed()
{{- end -}}

{{- define "platform-operator.image" -}}
{{- $i := .Values.image -}}
{{- if not (and $i.repository (or $i.tag $i.digest)) -}}
{{- fail "set image.repository and image.tag: no image is published yet; build one with make image-push IMG=…" -}}
{{- end -}}
{{- $i.repository }}{{ with $i.tag }}:{{ . }}{{ end }}{{ with $i.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* The subject of every binding. */}}
{{- define "platform-operator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "platform-operator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{/* The security context that the Pod Security Standard restricted requires. */}}
{{- define "platform-operator.podSecurityContext" -}}
fsGroup: 65532
runAsGroup: 65532
runAsNonRoot: true
runAsUser: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "platform-operator.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{/*
85 % of the memory limit in MiB, for GOMEMLIMIT, or nothing without a limit: the
garbage collector must have room for what it does not count, such as stacks, before
the kernel kills the container.
*/}}
{{- define "platform-operator.memoryLimit" -}}
{{- with ((.Values.resources).limits).memory -}}
{{- $limit := toString . -}}
{{- if kindIs "float64" . }}{{ $limit = int64 . | toString }}{{ end -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $unit := regexFind "[A-Za-z]*$" $limit -}}
{{- $number := trimSuffix $unit $limit -}}
{{- if not (and (hasKey $units $unit) (regexMatch "^[0-9]+$" $number)) -}}
{{- fail (printf "resources.limits.memory is %q: write a whole number with the unit k, M, G, Ki, Mi or Gi, such as 512Mi" $limit) -}}
{{- end -}}
{{- div (div (mul (int64 $number) (int64 (get $units $unit)) 85) 100) 1048576 }}MiB
{{- end -}}
{{- end -}}

{{/* Whether the operator issues its own certificate, as text: true, or nothing. */}}
{{- define "platform-operator.issuesCertificate" -}}
{{- $webhooks := .Values.webhooks -}}
{{- if and $webhooks.enabled (not $webhooks.certManager.enabled) }}true{{ end -}}
{{- end -}}

{{/* The names of the operator's Services, as JSON: [...]. */}}
{{- define "platform-operator.dnsNames" -}}
{{- $name := include "platform-operator.fullname" . -}}
{{- $names := list -}}
{{- range $service := list "webhook" "metrics" -}}
{{- $host := printf "%s-%s.%s.svc" $name $service $.Release.Namespace -}}
{{- $names = concat $names (list $host (printf "%s.cluster.local" $host)) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* The settings of both pods. */}}
{{- define "platform-operator.podDefaults" -}}
automountServiceAccountToken: false
# The pods find the API server by the variables that Kubernetes always sets.
enableServiceLinks: false
{{- if not (kindIs "invalid" .Values.hostUsers) }}
hostUsers: {{ .Values.hostUsers }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Whether config.kinds enables a kind, as text: true, or nothing. The argument is a list:
the root context, and the name of the kind in any case.
*/}}
{{- define "platform-operator.hasKind" -}}
{{- $kinds := (index . 0).Values.config.kinds -}}
{{- if or (not $kinds) (has (index . 1 | lower) (splitList "," (join "," $kinds | lower))) }}true{{ end -}}
{{- end -}}

{{/*
What is before the versions of a CRD, whose schemas are long to parse. The argument is the text.
*/}}
{{- define "platform-operator.crdHead" -}}
{{- (splitn "\n  versions:" 2 .)._0 -}}
{{- end -}}

{{/* Fails if config.kinds contains a name that is not that of a kind. */}}
{{- define "platform-operator.checkKinds" -}}
{{- if .Values.config.kinds -}}
{{- $known := list -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $known = append $known (include "platform-operator.crdHead" ($.Files.Get $path) | fromYaml).spec.names.kind -}}
{{- end -}}
{{- range .Values.config.kinds -}}
{{- if not (has . $known) -}}
{{- fail (printf "config.kinds contains %q: use %s" . ($known | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails if config.defaults contains what is not in the CRDs of the kinds. Relations between
fields are rules in CEL, which only the operator evaluates, but for one that is easily met.
*/}}
{{- define "platform-operator.checkDefaults" -}}
{{- if .Values.config.defaults -}}
{{- $specs := dict -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" -}}
{{- $crd := ($.Files.Get $path | fromYaml).spec -}}
{{- $_ := set $specs $crd.names.kind (first $crd.versions).schema.openAPIV3Schema.properties.spec -}}
{{- end -}}
{{- range $i, $d := .Values.config.defaults -}}
{{- range $d.kinds -}}
{{- if not (hasKey $specs .) -}}
{{- fail (printf "config.defaults[%d].kinds contains %q: use %s" $i . (keys $specs | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- range $kind, $spec := $specs -}}
{{- if and (or (not $d.kinds) (has $kind $d.kinds)) (include "platform-operator.hasKind" (list $ $kind)) -}}
{{- include "platform-operator.checkValue" (list (printf "config.defaults[%d].spec" $i) $kind (omit $spec "required" "x-kubernetes-validations") $d.spec) -}}
{{- $resources := default dict $d.spec.resources -}}
{{- if and (eq $kind "Memcached") (or (hasKey (default dict $resources.requests) "memory") (hasKey (default dict $resources.limits) "memory")) -}}
{{- fail (printf "config.defaults[%d].spec.resources states memory, which a Memcached derives from its other fields: name other kinds in config.defaults[%d].kinds" $i $i) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Fails if a value does not match a schema. The argument is a list: the path, the kind, the schema, and the value. */}}
{{- define "platform-operator.checkValue" -}}
{{- $at := index . 0 -}}
{{- $kind := index . 1 -}}
{{- $s := index . 2 -}}
{{- $v := index . 3 -}}
{{- $is := kindOf $v -}}
{{- $number := has $is (list "float64" "int" "int64") -}}
{{- $types := dict "object" (eq $is "map") "array" (eq $is "slice") "string" (eq $is "string") "boolean" (eq $is "bool") "integer" (and $number (eq (floor $v) (float64 $v))) -}}
{{- $ok := or (get $types (default "integer" $s.type)) (and (not $s.type) (eq $is "string")) -}}
{{- if and $ok $s.enum -}}
{{- $ok = has $v $s.enum -}}
{{- end -}}
{{- if and $ok $number -}}
{{- $ok = not (or (and (hasKey $s "minimum") (lt (float64 $v) (float64 $s.minimum))) (and (hasKey $s "maximum") (gt (float64 $v) (float64 $s.maximum)))) -}}
{{- end -}}
{{- if and $ok (eq $is "string") -}}
{{- $ok = and (regexMatch (default "" $s.pattern) $v) (ge (len $v) (int $s.minLength)) (le (len $v) (int (default 1048576 $s.maxLength))) -}}
{{- end -}}
{{- if and $ok (eq $is "slice") -}}
{{- $ok = and (ge (len $v) (int $s.minItems)) (le (len $v) (int (default 1048576 $s.maxItems))) -}}
{{- end -}}
{{- if and $ok (eq $is "map") -}}
{{- $ok = le (len $v) (int (default 1048576 $s.maxProperties)) -}}
{{- range $s.required -}}
{{- $ok = and $ok (hasKey $v .) -}}
{{- end -}}
{{- range index $s "x-kubernetes-validations" -}}
{{- if hasSuffix "?1:0) == 1" .rule -}}
{{- $set := list -}}
{{- range regexFindAll "self[.][A-Za-z]+" .rule -1 -}}
{{- if hasKey $v (trimPrefix "self." .) }}{{ $set = append $set . }}{{ end -}}
{{- end -}}
{{- $ok = and $ok (eq (len $set) 1) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $ok -}}
{{- fail (printf "%s is %s: see kubectl explain %s%s" $at (toJson $v) (lower $kind) (regexReplaceAll "^[^.]*[.]defaults|[[][0-9]+[]]" $at "")) -}}
{{- end -}}
{{- if eq $is "slice" -}}
{{- range $i, $item := $v -}}
{{- include "platform-operator.checkValue" (list (printf "%s[%d]" $at $i) $kind $s.items $item) -}}
{{- end -}}
{{- end -}}
{{- if eq $is "map" -}}
{{- range $name, $field := $v -}}
{{- $of := get (default dict $s.properties) $name | default $s.additionalProperties -}}
{{- if not $of -}}
{{- fail (printf "%s.%s is not a field of %s" $at $name $kind) -}}
{{- end -}}
{{- include "platform-operator.checkValue" (list (printf "%s.%s" $at $name) $kind $of $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Fails if values contradict each other, so that the operator would exit. What concerns one
value is in values.schema.json.
*/}}
{{- define "platform-operator.checkConfig" -}}
{{- include "platform-operator.checkDefaults" . -}}
{{- $c := .Values.config -}}
{{- $web := $c.webServer -}}
{{- if not (has $web.serviceType $c.serviceTypes) -}}
{{- fail (printf "config.webServer.serviceType is %s: use one of config.serviceTypes, %s" $web.serviceType (join ", " $c.serviceTypes)) -}}
{{- end -}}
{{- $from := int $c.nodePortRange.from -}}
{{- $to := int $c.nodePortRange.to -}}
{{- if gt $from $to -}}
{{- fail (printf "config.nodePortRange is %d to %d: begin with the first port" $from $to) -}}
{{- end -}}
{{- $port := int $web.nodePort -}}
{{- if and $port (or (lt $port $from) (gt $port $to)) -}}
{{- fail (printf "config.webServer.nodePort is %d: use 0, or a port within config.nodePortRange, %d to %d" $port $from $to) -}}
{{- end -}}
{{- $drain := int $c.pods.drainSeconds -}}
{{- if and (gt $drain 5) (gt (add $drain 25) (int64 $c.pods.maxTerminationGracePeriodSeconds)) -}}
{{- fail (printf "config.pods.drainSeconds is %d: it needs a config.pods.maxTerminationGracePeriodSeconds of %d" $drain (add $drain 25)) -}}
{{- end -}}
{{- if .Values.webhooks.enabled -}}
{{- $certs := .Values.webhooks.certificates -}}
{{- $validity := include "platform-operator.seconds" $certs.validity | int64 -}}
{{- $before := include "platform-operator.seconds" $certs.renewBefore | int64 -}}
{{- if lt $before 3600 -}}
{{- fail (printf "webhooks.certificates.renewBefore is %s: use at least 1h" $certs.renewBefore) -}}
{{- end -}}
{{- if le $validity $before -}}
{{- fail (printf "webhooks.certificates.validity is %s: use more than renewBefore, %s" $certs.validity $certs.renewBefore) -}}
{{- end -}}
{{- if gt $validity (mul 87599 3600) -}}
{{- fail (printf "webhooks.certificates.validity is %s: use at most 87599h" $certs.validity) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The seconds of a duration such as 1h30m. */}}
{{- define "platform-operator.seconds" -}}
{{- $sum := 0 -}}
{{- range $unit, $seconds := dict "h" 3600 "m" 60 "s" 1 -}}
{{- $sum = add $sum (mul $seconds (regexFind (printf "[0-9]+%s" $unit) $ | trimSuffix $unit | int64)) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/*
The rules of the enabled kinds, from the markers in controllers/: one for all resources of
a group with the same verbs, as controller-gen merges them.
*/}}
{{- define "platform-operator.managerRules" -}}
{{- $gates := .Values.config.featureGates | default dict -}}
{{- $off := list -}}
{{- if eq (get $gates "GatewayAPI" | toString) "false" }}{{ $off = append $off "gateway.networking.k8s.io" }}{{ end -}}
{{- if eq (get $gates "PodMonitors" | toString) "false" }}{{ $off = append $off "monitoring.coreos.com" }}{{ end -}}
{{- $verbs := dict -}}
{{- range $path, $_ := .Files.Glob "files/roles/*.yaml" -}}
{{- if include "platform-operator.hasKind" (list $ (base $path | trimSuffix ".yaml")) -}}
{{- range $rule := ($.Files.Get $path | fromYaml).rules -}}
{{- range $group := without $rule.apiGroups $off -}}
{{- range $resource := $rule.resources -}}
{{- $key := toJson (list $group $resource) -}}
{{- $_ := set $verbs $key (concat (get $verbs $key | default list) $rule.verbs | uniq | sortAlpha) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $resources := dict -}}
{{- range $key, $allowed := $verbs -}}
{{- $at := fromJsonArray $key -}}
{{- $key := toJson (list (first $at) $allowed) -}}
{{- $_ := set $resources $key (append (get $resources $key | default list) (last $at)) -}}
{{- end -}}
{{- $rules := dict -}}
{{- range $key, $names := $resources -}}
{{- $of := fromJsonArray $key -}}
{{- $_ := set $rules (toJson (list (first $of) $names)) (dict "apiGroups" (list (first $of)) "resources" $names "verbs" (last $of)) -}}
{{- end -}}
{{- range $rules }}
{{ toYaml (list .) }}
{{- end -}}
{{- end -}}

{{/*
RBAC rules for the operator's kinds, from the CRDs. The argument is a list: the root
context, the verbs, the subresources to include if a kind has them, and whether to
include kinds that config.kinds disables.
*/}}
{{- define "platform-operator.kindRules" -}}
{{- $root := index . 0 -}}
{{- $verbs := index . 1 -}}
{{- $subresources := index . 2 -}}
{{- $all := index . 3 -}}
{{- range $path, $_ := $root.Files.Glob "files/crds/*.yaml" -}}
{{- $text := $root.Files.Get $path -}}
{{- $spec := (include "platform-operator.crdHead" $text | fromYaml).spec -}}
{{- if or $all (include "platform-operator.hasKind" (list $root $spec.names.kind)) -}}
{{- $resources := list $spec.names.plural -}}
{{- range $sub := $subresources -}}
{{- if regexMatch (printf "\n    subresources:\n(      .*\n)*      %s:" $sub) $text -}}
{{- $resources = append $resources (printf "%s/%s" $spec.names.plural $sub) -}}
{{- end -}}
{{- end }}
- apiGroups: [{{ $spec.group }}]
  resources: [{{ join ", " $resources }}]
  verbs: [{{ join ", " $verbs }}]
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The argument is the weight, which defines the order of hooks. */}}
{{- define "platform-operator.hookAnnotations" -}}
helm.sh/hook: pre-delete
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
helm.sh/hook-weight: {{ . | quote }}
{{- end -}}

{{/*
A token that is valid for one hour, at the path where client-go expects it. The
token that Kubernetes mounts by default is valid for a year.
*/}}
{{- define "platform-operator.tokenVolume" -}}
- name: token
  projected:
    sources:
    - serviceAccountToken:
        path: token
        expirationSeconds: 3600
    - configMap:
        name: kube-root-ca.crt
        items:
        - key: ca.crt
          path: ca.crt
    - downwardAPI:
        items:
        - path: namespace
          fieldRef:
            fieldPath: metadata.namespace
{{- end -}}

{{- define "platform-operator.tokenMount" -}}
- name: token
  mountPath: /var/run/secrets/kubernetes.io/serviceaccount
  readOnly: true
{{- end -}}

{{/*
The items of a list, as strings of CEL.
*/}}
{{- define "platform-operator.quoted" -}}
{{- $all := list }}
{{- range . }}
{{- $all = append $all (squote .) }}
{{- end }}
{{- join ", " $all }}
{{- end }}

{{/*
A regular expression in CEL for patterns of keys, of which * is any characters.
*/}}
{{- define "platform-operator.keys" -}}
{{- $all := list }}
{{- range . }}
{{- $all = append $all (. | replace "." "[.]" | replace "*" ".*") }}
{{- end }}
{{- if $all }}'^({{ join "|" $all }})$'{{ else }}'^$'{{ end }}
{{- end }}
