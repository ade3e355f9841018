"""Where alembic finds the tables and the connection that `store.opening` hands it."""

from alembic import context

from hostler.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
