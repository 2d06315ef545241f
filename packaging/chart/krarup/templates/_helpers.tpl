{{- define "krarup.name" -}}
{{- if contains "krarup" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-krarup" (.Release.Name | trunc 33) }}{{ end }}
{{- end }}

{{- /* Of one component: dict "root" . "component" "proxy" */ -}}
{{- define "krarup.selector" -}}
app.kubernetes.io/name: krarup
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "krarup.labels" -}}
{{ include "krarup.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{- define "krarup.podMetadata" -}}
labels:
  {{- include "krarup.selector" . | nindent 2 }}
  {{- with .root.Values.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with .root.Values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Of every pod: it may do nothing but use sockets. */ -}}
{{- define "krarup.podSettings" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "krarup.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    # Each revision by itself: counted with the pods that they replace, new ones would all go where none of those is.
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "krarup.selector" . | nindent 8 }}
{{- end }}

{{- /* A tag of digits alone is a number: JSON writes all of them. */ -}}
{{- define "krarup.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion | toJson | trimAll "\"") }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* How many addresses for monitoring a broker has: one for each shard. */ -}}
{{- define "krarup.brokerAdmins" -}}
{{- .Values.broker.args | join " " | regexFind "--shards[= ][0-9]+" | regexFind "[0-9]+$" | default "1" -}}
{{- end }}

{{- /* The path that says whether the pod takes clients. */ -}}
{{- define "krarup.probes" -}}
livenessProbe:
  httpGet: {path: /health, port: admin}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 3
readinessProbe:
  httpGet: {path: {{ . }}, port: admin}
  periodSeconds: 2
  timeoutSeconds: 2
{{- end }}

{{- /* "a:11211", "b:11211" */ -}}
{{- define "krarup.servers" -}}
{{- $servers := .Values.proxy.servers }}
{{- if and (not $servers) .Values.cache.enabled }}
{{- $name := printf "%s-cache" (include "krarup.name" .) }}
{{- range until (int .Values.cache.replicas) }}
{{- $servers = append $servers (printf "%s-%d.%s.%s.svc:%d" $name . $name $.Release.Namespace (int $.Values.cache.port)) }}
{{- end }}
{{- end }}
{{- if not $servers }}{{ fail "proxy.servers names no server: set it, or cache.enabled for a store of the chart's own" }}{{ end }}
{{- range $place, $server := $servers }}{{ if $place }}, {{ end }}{{ $server | quote }}{{ end }}
{{- end }}
