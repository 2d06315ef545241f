command -v nutcracker >/dev/null || failed 'not installed: nutcracker'
