"""A testbed as manifests for Kubernetes."""
