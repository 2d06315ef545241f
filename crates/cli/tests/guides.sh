# What the reader of a guide does, as functions of a shell; it ends at the first command that fails.
# The namespaces are the test's own: `--kill-child` ends all that was started.
ip link set lo up
# Guides write to /etc: what they write there is gone with this shell.
mkdir layers && mount -t tmpfs tmpfs layers && mkdir layers/etc layers/work || exit 1
mount -t overlay overlay -o lowerdir=/etc,upperdir=layers/etc,workdir=layers/work /etc || exit 1
services=0

failed() {
    echo "$1"
    exit 1
}

# A command. `krarup top` prints until it is ended where there is no terminal. That there is no conclusion, or that a target is broken, is an answer, too.
typed() {
    echo "+ $1"
    case $1 in
        *--once* | *--looks*) ;;
        'krarup top '*) set -- "krarup top --once ${1#krarup top }" ;;
    esac
    eval "$1" || case "$1,$?" in
        'krarup headroom'*,[13] | 'krarup compare '*--fail-if*,[13]) ;;
        *) failed "this failed: $1" ;;
    esac
}

# A command that goes on until it is ended: the reader turns to another terminal when it listens. One
# whose address or database another has takes the place of that one: the reader ends it first.
service() {
    echo "+ $1 &"
    if ! begins "$1"; then
        grep -q 'another process listens there\|^waiting: the broker' "service$services.log" ||
            { cat "service$services.log"; failed "this ended: $1"; }
        set -- "$1" $of_guide $pid
        for before in "${@:2}"; do kill "$before" 2>/dev/null; wait "$before"; done
        begins "$1" || { cat "service$services.log"; failed "this ended: $1"; }
    fi
    of_guide="$of_guide $pid"
}

begins() {
    services=$((services + 1))
    command=${1%%  #*}
    command=${command%"${command##*[! ]}"}
    (eval "exec ${command%&}") >"service$services.log" 2>&1 &
    pid=$!
    until grep -q 'listening on' "service$services.log" 2>/dev/null; do
        kill -0 $pid 2>/dev/null || return 1
        ! grep -q '^waiting: the broker' "service$services.log" || return 1
    done
}

# The lines of expected.txt are those of a file; one of an ellipsis stands for any.
alike() {
    awk 'NR == FNR { wanted[++lines] = $0; next }
        { got[++count] = $0 }
        END {
            at = 1
            for (line = 1; line <= lines; line++) {
                if (wanted[line] == "…") { any = 1; continue }
                while (any && at <= count && got[at] != wanted[line]) at++
                if (at > count || got[at] != wanted[line]) {
                    print "wanted: " wanted[line] "\nprinted: " got[at]
                    exit 1
                }
                at++
                any = 0
            }
            if (!any && at <= count) { print "printed besides: " got[at]; exit 1 }
        }' expected.txt "$1" || { cat "$1"; failed "this prints something else: $2"; }
}

# A command whose output the guide shows. One that goes on is ended when its first lines are there;
# the port that the system chose is any.
seen() {
    echo "+ $1"
    case $1 in
        'krarup '*' &' | 'krarup cache --listen 127.0.0.1:0')
            service "$1"
            [ "${1%&}" = "$1" ] || return 0
            sed -i 's/:[0-9]*$/:PORT/' expected.txt
            sed 's/:[0-9]*$/:PORT/' "service$services.log" >seen.txt
            kill $pid
            wait $pid
            ;;
        'kill %1')
            kill $pid
            wait $pid
            grep -v 'listening on' "service$services.log" >seen.txt
            ;;
        *) eval "$1" >seen.txt 2>&1 ;;
    esac
    [ -s expected.txt ] || return 0
    tr -d '\r' <seen.txt >plain.txt
    alike plain.txt "$1"
}
