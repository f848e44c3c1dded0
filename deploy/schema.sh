#!/bin/sh
# Makes Temporal's two databases, or brings them up to the version of this image. Run again, it
# changes nothing. SQL_HOST, SQL_PORT, SQL_USER, SQL_PASSWORD and SQL_PLUGIN say where they are.
set -eu

# setup DATABASE SCHEMA
setup() {
	temporal-sql-tool --database "$1" create-database
	temporal-sql-tool --database "$1" setup-schema --version 0.0
	temporal-sql-tool --database "$1" update-schema --schema-name "postgresql/v12/$2"
}

setup temporal temporal
setup temporal_visibility visibility
