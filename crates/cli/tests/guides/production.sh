# The configuration that is there.
mkdir -p /etc/krarup
service 'krarup cache --listen 127.0.0.1:11212'
of_guide=
echo 'servers = ["127.0.0.1:11212"]' >/etc/krarup/proxy.toml
