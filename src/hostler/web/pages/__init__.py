"""The dashboard: pages made on the server from the views of the API, kept up to date in the browser."""
