"""The files of a job as they were at submission: chosen and hashed by the client, kept by the controller."""
