"""A campaign: planted seeds of all generators and call patterns, and draws by chance."""
