{{/* The name of an object of one component: `<release>-submit`. Takes (dict "root" $ "component" "submit"). */}}
{{- define "fairlead.name" -}}
{{- $release := .root.Release.Name | trunc 40 | trimSuffix "-" -}}
{{- $release }}-{{ .component -}}
{{- end }}

{{/* The labels by which a component is selected. They never change. */}}
{{- define "fairlead.selector" -}}
app.kubernetes.io/name: fairlead
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "fairlead.labels" -}}
{{ include "fairlead.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* An environment variable from the Secret. Takes (dict "root" $ "variable" "FAIRLEAD_LOG_URL" "key" "logUrl"). */}}
{{- define "fairlead.secretVariable" -}}
- name: {{ .variable }}
  valueFrom:
    secretKeyRef: {name: {{ .root.Values.secret }}, key: {{ .key }}{{ if .optional }}, optional: true{{ end }}}
{{- end }}

{{/* The settings file of all services: what users set, and what follows from the chart. */}}
{{- define "fairlead.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $own := list "127.0.0.1" "localhost" -}}
{{- $_ := set $settings "hosts" (concat $own .Values.hosts (get $settings "hosts" | default list) | uniq) -}}
{{- if and .Values.gateway.enabled .Values.gateway.proxies -}}
{{- $connections := get $settings "connections" | default dict -}}
{{- $_ := set $settings "connections" (merge $connections (dict "proxies" .Values.gateway.proxies)) -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end }}

{{/*
The pod template of one component. Takes (dict "root" $ "component" "submit" "image" "submit" "resources" {...}
"env" [...] "mounts" [...] "volumes" [...] "account" "" ).
*/}}
{{- define "fairlead.podTemplate" -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "fairlead.labels" . | nindent 4 }}
  annotations:
    # A changed setting replaces the pods.
    checksum/settings: {{ include "fairlead.settings" .root | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if .account }}
  serviceAccountName: {{ .account }}
  {{- end }}
  automountServiceAccountToken: {{ ne .account "" }}
  enableServiceLinks: false
  # Requests under way end within 6 s; before that, the Service and the gateway forget the pod.
  terminationGracePeriodSeconds: 45
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  {{- with $values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- $selector := include "fairlead.selector" . }}
    {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - topologyKey: {{ . }}
      maxSkew: 1
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- $selector | nindent 10 }}
    {{- end }}
  containers:
    - name: {{ .image }}
      image: {{ printf "%s-%s:%s" $values.image.prefix .image ($values.image.tag | default .root.Chart.AppVersion) | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      env:
        - {name: FAIRLEAD_SETTINGS, value: /etc/fairlead/settings.yaml}
        {{- .env | nindent 8 }}
      ports:
        - {name: http, containerPort: 8080}
      # The Host header must be one of `hosts`; without this it would be the pod's address.
      # A start can migrate the tables of an earlier version, which takes about a minute for a million jobs.
      startupProbe:
        httpGet: &healthz {path: /healthz, port: http, httpHeaders: [{name: Host, value: 127.0.0.1}]}
        periodSeconds: 2
        failureThreshold: 1800
      livenessProbe:
        httpGet: *healthz
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http, httpHeaders: [{name: Host, value: 127.0.0.1}]}
        periodSeconds: 5
        timeoutSeconds: 3
      lifecycle:
        preStop:
          sleep: {seconds: 5}
      resources:
        {{- toYaml .resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: settings, mountPath: /etc/fairlead, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- with .mounts }}
        {{- . | nindent 8 }}
        {{- end }}
  volumes:
    - name: settings
      configMap: {name: {{ include "fairlead.name" (dict "root" .root "component" "settings") }}}
    - name: tmp
      emptyDir: {}
    {{- with .volumes }}
    {{- . | nindent 4 }}
    {{- end }}
{{- end }}
