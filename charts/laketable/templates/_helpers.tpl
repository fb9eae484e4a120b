{{- define "laketable.fullname" -}}
{{- if contains "laketable" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-laketable" (.Release.Name | trunc 30 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "laketable.operator" -}}
{{ include "laketable.fullname" . }}-operator
{{- end -}}

{{- define "laketable.webhook" -}}
{{ include "laketable.fullname" . }}-webhook
{{- end -}}

{{- define "laketable.account" -}}
{{- if .Values.serviceAccount.name -}}
{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create -}}
{{ include "laketable.operator" . }}
{{- else -}}
{{ fail "Set serviceAccount.name, or let the chart make one: serviceAccount.create." }}
{{- end -}}
{{- end -}}

{{- define "laketable.selector" -}}
app.kubernetes.io/name: laketable-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "laketable.labels" -}}
{{ include "laketable.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "laketable.image" -}}
{{- $repository := required "Set image.repository to where you pushed the operator's image (Dockerfile, target operator)." .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The namespaces that need a Role, the release's own among them: its LakePolicies hold for the others. */}}
{{- define "laketable.namespaces" -}}
{{ append .Values.watchNamespaces .Release.Namespace | uniq | toJson }}
{{- end -}}

{{- define "laketable.jobNamespaces" -}}
{{ .Values.jobs.namespaces | default .Values.watchNamespaces | uniq | toJson }}
{{- end -}}

{{/* What the operator may do in the namespaces that it watches. */}}
{{- define "laketable.rules" -}}
- apiGroups: [laketable.dev]
  resources: [laketables, lakecatalogs, lakepolicies, laketableplans]
  verbs: [get, list, watch]
- apiGroups: [laketable.dev]
  resources: [laketables]
  verbs: [patch]  # the finalizer of deletionPolicy Drop
- apiGroups: [laketable.dev]
  resources: [laketables/status, lakecatalogs/status, lakepolicies/status, laketableplans/status]
  verbs: [patch]
- apiGroups: [laketable.dev]
  resources: [laketableplans]
  verbs: [create, delete]
- apiGroups: [""]
  resources: [namespaces]  # a Role lets it read the namespace that the Role is in
  verbs: [get]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, create]
{{- if .Values.rbac.allSecrets }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, create, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}

{{/* Whom a pod may ask. */}}
{{- define "laketable.egress" -}}
egress:
  - ports:  # DNS, node-local caches included
      - {port: 53, protocol: UDP}
      - {port: 53, protocol: TCP}
  - to:
      - ipBlock:
          cidr: 0.0.0.0/0
          except: {{ toJson .Values.networkPolicy.exceptIPv4 }}
      - ipBlock:
          cidr: "::/0"
          except: {{ toJson .Values.networkPolicy.exceptIPv6 }}
{{- end -}}
