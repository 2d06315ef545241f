# What the reader comes from.
cat >mcrouter.json <<'END'
{
  // Two servers, and another pool while both are down.
  "pools": {
    "main": { "servers": ["127.0.0.1:11212", "127.0.0.1:11213"] },
    "spare": { "servers": ["127.0.0.1:11214"] }
  },
  "route": { "type": "FailoverRoute", "children": ["PoolRoute|main", "PoolRoute|spare"] }
}
END
