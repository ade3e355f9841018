"""Ray in Kubernetes: manifests for KubeRay, checked in layers, and a small client for a cluster.

Start at `sources.py` (from a fleet file to manifests) and `rendering.py`.
"""
