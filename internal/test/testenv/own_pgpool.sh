#!/bin/sh
# Becomes a pgpool that splits reads from writes.
#   $1 the binary   $2 its port   $3 the primary's port   $4 the standby's   $5... further settings
# Every read goes to the standby. pgpool requires no password, keeps no session for the
# next client, and never treats a server as lost.
bin=$1 port=$2 primary=$3 standby=$4
shift 4
umask 077
mkdir -p run pcp
cat >pgpool.conf <<END
backend_clustering_mode = 'streaming_replication'
listen_addresses = '127.0.0.1'
port = $port
socket_dir = '$PWD/run'
pcp_listen_addresses = ''
pcp_port = $port
pcp_socket_dir = '$PWD/pcp'
pid_file_name = '$PWD/run/pid'
logdir = '$PWD/run'
backend_hostname0 = '127.0.0.1'
backend_port0 = $primary
backend_weight0 = 0
backend_flag0 = 'ALWAYS_PRIMARY|DISALLOW_TO_FAILOVER'
backend_hostname1 = '127.0.0.1'
backend_port1 = $standby
backend_weight1 = 1
backend_flag1 = 'DISALLOW_TO_FAILOVER'
load_balance_mode = on
connection_cache = off
num_init_children = 40
max_pool = 1
enable_pool_hba = off
health_check_period = 0
sr_check_period = 0
sr_check_user = 'postgres'
sr_check_password = ''
sr_check_database = 'postgres'
use_watchdog = off
memory_cache_enabled = off
failover_on_backend_error = off
$(printf '%s\n' "$@")
END
: >pool_hba.conf
: >pcp.conf
exec "$bin" -n -f pgpool.conf -F pcp.conf -a pool_hba.conf
