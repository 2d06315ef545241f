# What the reader comes from.
cat >nutcracker.yml <<'END'
alpha:
  listen: 127.0.0.1:22121
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: true
  servers:
   - 127.0.0.1:11212:1
   - 127.0.0.1:11213:1
END
for port in 11212 11213; do service "krarup cache --listen 127.0.0.1:$port"; done
of_guide=
