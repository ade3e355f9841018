"""A datacentre on one machine: hosts in namespaces of their own, behind real SSH servers, and what befalls them."""
