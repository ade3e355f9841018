"""The search in OpenCL: one source for NVIDIA, AMD and CPUs (PoCL), put together for each question."""
