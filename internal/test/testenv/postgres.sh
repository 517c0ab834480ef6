#!/bin/sh
# Makes a database cluster and becomes its server.
#   $1 the folder of the binaries   $2 the folder of the data   $3... the server's options
bin=$1 data=$2
shift 2
"$bin/initdb" -D "$data" -U postgres -A trust -E UTF8 --locale=C --no-sync || exit
exec "$bin/postgres" -D "$data" "$@"
