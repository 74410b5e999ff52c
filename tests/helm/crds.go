//go:build crds

// Package helm pins the resources of the Gateway API, which tests apply to their API server.
package helm

import _ "sigs.k8s.io/gateway-api/apis/v1"
