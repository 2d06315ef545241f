# Results to be compared, and two files of hyperfine's.
cat >tiny.toml <<'END'
title = "tiny"
repetitions = { min = 3 }
phases = { warm_up = "50ms", measure = "100ms" }
[stations.servers]
program = "cache"
count = 1
[stations.clients]
program = "load"
flags = ["--connections", "2"]
END
for out in before after; do
    krarup run tiny.toml --out $out >$out.log 2>&1 || failed "$(cat $out.log)"
done
for file in old.json new.json; do
    echo '{"results": [{"command": "true", "mean": 0.1, "times": [0.101, 0.1, 0.099, 0.1]}]}' >$file
done
