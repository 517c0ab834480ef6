#!/bin/sh
# Makes the system tables if there are none, and becomes a node of a Galera cluster on
# 127.0.0.1. root has no password.
#   $1 mariadb-install-db   $2 mariadbd   $3 the provider   $4 the folder of the data   $5 the port
#   $6 the port of the group, $7 of incremental and $8 of whole transfers of state
#   $9 the group address of a node to join, empty for the first of a cluster
install=$1 server=$2 provider=$3 data=$4 port=$5 group=$6 ist=$7 sst=$8 first=$9
# A tmpdir of its own: see mariadb.sh.
mkdir -p "$data.tmp" || exit
set -- --no-defaults --datadir="$data" --tmpdir="$data.tmp" --skip-name-resolve --innodb-flush-log-at-trx-commit=0 --skip-innodb-doublewrite \
	--innodb-buffer-pool-size=64M --character-set-server=utf8mb4
if [ ! -e "$data" ]; then
	"$install" "$@" --auth-root-authentication-method=normal --skip-test-db || exit
fi
exec "$server" "$@" --bind-address=127.0.0.1 --port="$port" --socket= --max-connections=200 --pid-file="$data/pid" \
	--binlog-format=ROW --innodb-autoinc-lock-mode=2 --wsrep-on=ON --wsrep-provider="$provider" \
	--wsrep-cluster-address="gcomm://$first" --wsrep-node-address=127.0.0.1 \
	--wsrep-sst-method=rsync --wsrep-sst-receive-address="127.0.0.1:$sst" \
	--wsrep-provider-options="base_port=$group;gmcast.listen_addr=tcp://127.0.0.1:$group;ist.recv_addr=127.0.0.1:$ist;gcache.size=16M;gcache.dir=$data"
