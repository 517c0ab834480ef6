#!/bin/sh
# Becomes an nginx that stores files sent by PUT.
#   $1 the binary   $2 its port
# One process, in the foreground. All its files are in the working folder.
bin=$1 port=$2
mkdir files temp
cat >nginx.conf <<END
daemon off;
master_process off;
pid nginx.pid;
error_log stderr notice;
events {}
http {
	access_log off;
	default_type text/plain;
	client_body_temp_path temp/body;
	proxy_temp_path temp/proxy;
	fastcgi_temp_path temp/fastcgi;
	uwsgi_temp_path temp/uwsgi;
	scgi_temp_path temp/scgi;
	client_max_body_size 0;
	server {
		listen 127.0.0.1:$port;
		root files;
		location / {
			dav_methods PUT DELETE MKCOL COPY MOVE;
			create_full_put_path on;
		}
	}
}
END
exec "$bin" -e stderr -p "$PWD" -c nginx.conf
