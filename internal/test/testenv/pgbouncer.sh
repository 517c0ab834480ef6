#!/bin/sh
# Becomes a PgBouncer in transaction mode.
#   $1 the binary   $2 its port   $3 the server, as PgBouncer writes a connection   $4... further settings
# It accepts clients without a password, and has the server's password. Each database name
# that a client uses is a pool of its own, with four sessions of the one database.
bin=$1 port=$2 server=$3
shift 3
umask 077
cat >pgbouncer.ini <<END
[databases]
* = $server
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
admin_users = anybody
server_tls_sslmode = prefer
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
$(printf '%s\n' "$@")
END
exec "$bin" pgbouncer.ini
