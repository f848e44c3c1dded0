#!/bin/sh
# Makes the database cluster in PGDATA, with the user POSTGRES_USER and a database of that name, and runs the server, as
# the image postgres does. While the cluster is being made the server listens on no network.
set -eu
if [ "$(id -u)" = 0 ]; then
	chown postgres: "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
	: "${POSTGRES_PASSWORD:?is the password of the database}"
	user=${POSTGRES_USER:-postgres}
	secret=$(mktemp)
	printf '%s\n' "$POSTGRES_PASSWORD" >"$secret"
	initdb --username="$user" --pwfile="$secret" --auth-host=scram-sha-256
	rm "$secret"
	echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
	echo "listen_addresses = '*'" >>"$PGDATA/postgresql.conf"
	pg_ctl --wait --options='-c listen_addresses=' start
	[ "$user" = postgres ] || createdb --username="$user" --maintenance-db=postgres "${POSTGRES_DB:-$user}"
	pg_ctl --wait --mode=fast stop
fi
exec "$@"
