#!/bin/sh
# Makes the system tables and becomes a MariaDB server on 127.0.0.1. root has no password.
#   $1 mariadb-install-db   $2 mariadbd   $3 the folder of the data   $4 the port   $5... the server's options
# Nothing needs to survive a crash of the machine. No socket: its path could be too long.
install=$1 server=$2 data=$3 port=$4
shift 4
options=$*
# A starting server removes the temporary tables in its tmpdir, and a server that uses
# them crashes: so not in /tmp.
mkdir "$data.tmp" || exit
set -- --no-defaults --datadir="$data" --tmpdir="$data.tmp" --skip-name-resolve --innodb-flush-log-at-trx-commit=0 --skip-innodb-doublewrite \
	--innodb-buffer-pool-size=64M --character-set-server=utf8mb4
"$install" "$@" --auth-root-authentication-method=normal --skip-test-db || exit
# shellcheck disable=SC2086 # several words, without blanks in them
exec "$server" "$@" $options --bind-address=127.0.0.1 --port="$port" --socket= --max-connections=500 --pid-file="$data/pid"
