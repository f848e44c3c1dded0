{{- /* The name of what the release has once. */ -}}
{{- define "stint.fullname" -}}
{{- $name := .Values.nameOverride -}}
{{- if not $name -}}
{{- $name = ternary .Release.Name (printf "%s-stint" .Release.Name) (contains "stint" .Release.Name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- /* The name of a part: of the list (root, part). Kubernetes adds up to 11 characters for a pod. */ -}}
{{- define "stint.partname" -}}
{{- $name := printf "%s-%s" (include "stint.fullname" (index . 0)) (index . 1) -}}
{{- if gt (len $name) 52 -}}
{{- fail (printf "the name %s has %d characters, and Kubernetes takes at most 52 here: use a shorter name of the release, or nameOverride" $name (len $name)) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "stint.serviceAccount" -}}
{{- default (ternary (include "stint.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* What selects everything of the release. */ -}}
{{- define "stint.selector" -}}
app.kubernetes.io/name: stint
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "stint.labels" -}}
{{ include "stint.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* What selects the pods of a part: of the list (root, component, pool or ""). */ -}}
{{- define "stint.partSelector" -}}
{{ include "stint.selector" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- with index . 2 }}
stint-pool: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "stint.partLabels" -}}
{{ include "stint.labels" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- with index . 2 }}
stint-pool: {{ . | quote }}
{{- end }}
{{- end -}}

{{- /* A pool with what poolDefaults has: of the list (root, name). It is JSON. A value that is given counts, also if it is
false, 0 or empty; maps are taken together. */ -}}
{{- define "stint.pool" -}}
{{- $own := default dict (index (index . 0).Values.pools (index . 1)) -}}
{{- include "stint.over" (list (index . 0).Values.poolDefaults $own) -}}
{{- end -}}

{{- define "stint.over" -}}
{{- $all := deepCopy (index . 0) -}}
{{- range $key, $value := index . 1 -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $all $key)) -}}
{{- $_ := set $all $key (include "stint.over" (list (get $all $key) $value) | fromJson) -}}
{{- else -}}
{{- $_ := set $all $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end -}}

{{- /* How long Kubernetes waits for a pod's end: of the dict what, given, least, default. */ -}}
{{- define "stint.grace" -}}
{{- if kindIs "invalid" .given -}}
{{- .default -}}
{{- else if lt (int .given) (int .least) -}}
{{- fail (printf "%s: terminationGracePeriodSeconds %d is too small: %s may take %d seconds to end; use that or more, or leave it out" .what (int .given) .who (int .least)) -}}
{{- else -}}
{{- int .given -}}
{{- end -}}
{{- end -}}

{{- /* The variables by which all parts reach Temporal, and those of values. */ -}}
{{- define "stint.env" -}}
- name: TEMPORAL_ADDRESS
  value: {{ .Values.temporal.address | quote }}
- name: TEMPORAL_NAMESPACE
  value: {{ .Values.temporal.namespace | quote }}
{{- with .Values.temporal }}
{{- if or .tls .certificate.secret .apiKey.secret }}
- name: TEMPORAL_TLS
  value: "true"
{{- end }}
{{- with .serverName }}
- name: TEMPORAL_TLS_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- if .apiKey.secret }}
- name: TEMPORAL_API_KEY
  valueFrom: {secretKeyRef: {name: {{ .apiKey.secret | quote }}, key: {{ .apiKey.key | quote }}}}
{{- end }}
{{- if .certificate.secret }}
- name: TEMPORAL_TLS_CLIENT_CERT_PATH
  value: /etc/stint/temporal/tls.crt
- name: TEMPORAL_TLS_CLIENT_KEY_PATH
  value: /etc/stint/temporal/tls.key
{{- if .certificate.authority }}
- name: TEMPORAL_TLS_SERVER_CA_CERT_PATH
  value: /etc/stint/temporal/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.codecKeys.secret }}
- name: STINT_CODEC_KEY_FILE
  value: /etc/stint/codec/{{ .Values.codecKeys.key }}
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end -}}

{{- define "stint.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.temporal.certificate.secret }}
- name: temporal
  mountPath: /etc/stint/temporal
  readOnly: true
{{- end }}
{{- if .Values.codecKeys.secret }}
- name: codec
  mountPath: /etc/stint/codec
  readOnly: true
{{- end }}
{{- end -}}

{{- /* Volumes of the list (root, size of /tmp). */ -}}
{{- define "stint.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ index . 1 | quote }}}
{{- with (index . 0).Values }}
{{- if .temporal.certificate.secret }}
- name: temporal
  secret: {secretName: {{ .temporal.certificate.secret | quote }}}
{{- end }}
{{- if .codecKeys.secret }}
- name: codec
  secret: {secretName: {{ .codecKeys.secret | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end -}}

{{- define "stint.image" -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}

{{- /* What the pods of all parts have: of the list (root, part's values). */ -}}
{{- define "stint.pod" -}}
{{- $part := index . 1 -}}
{{- with index . 0 -}}
serviceAccountName: {{ include "stint.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false # their variables may begin with STINT_
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $part.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Probes of a part. A worker that waits for Temporal has no endpoint yet: it may do so for a day (--wait-for-server). */ -}}
{{- define "stint.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ . }}}
  periodSeconds: 5
  failureThreshold: 17280
livenessProbe:
  httpGet: {path: /livez, port: {{ . }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ . }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{- /* What ends the names of task queues, for each version of the logic that the program knows: docs/upgrading.md. */ -}}
{{- define "stint.logics" -}}
[""]
{{- end -}}
