# A proxy whose health is asked for.
service 'krarup proxy --config proxy.toml --admin 127.0.0.1:9151'
