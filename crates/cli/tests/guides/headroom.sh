# The servers that are there, any service that counts, and a Prometheus that knows it and the proxy.
command -v prometheus >/dev/null || failed 'not installed: prometheus'
for port in 11212 21213; do service "krarup cache --listen 127.0.0.1:$port"; done
of_guide=
mkdir service
cat >service/metrics <<'END'
http_request_duration_seconds_count 100
http_request_duration_seconds_sum 5
http_requests_in_flight 1
END
(cd service && exec python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1) &
cat >prometheus.yml <<'END'
global: { scrape_interval: 1s }
scrape_configs:
  - { job_name: service, static_configs: [{ targets: ["127.0.0.1:8000"] }] }
  - { job_name: proxy, static_configs: [{ targets: ["127.0.0.1:9151", "127.0.0.1:29152"] }] }
END
prometheus --config.file prometheus.yml --storage.tsdb.path prometheus --web.listen-address 127.0.0.1:9090 \
    >prometheus.log 2>&1 &
asks() { curl -sf "http://127.0.0.1:9090/api/v1/query?query=http_requests_in_flight" | grep -q '"value"'; }
until asks; do kill -0 $! || failed "$(cat prometheus.log)"; done
