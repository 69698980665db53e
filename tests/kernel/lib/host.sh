# A server on the host, whose volume is a disk of the guest: `# host: nbd` or `# host: vhost-user` in the head of a test.
# shellcheck shell=bash

# Starts it, or starts it again; returns when it serves.
host_serve() {
  local folder=$1 kind
  kind=$(cat "$folder/host-kind")
  : >"$folder/host.log.now"
  ZONEWEAVE_RUNTIME_DIR=$folder/run "$ZONEWEAVE" serve "$kind" "$folder"/host/drive* --socket "unix:$folder/host.sock" \
    >"$folder/host.log.now" 2>&1 &
  echo $! >"$folder/host-pid"
  # That it is killed is nothing to be told of.
  disown $!
  until grep -q '^ready' "$folder/host.log.now"; do
    kill -0 "$(cat "$folder/host-pid")" 2>/dev/null || { cat "$folder/host.log.now"; return 1; }
    sleep 0.1
  done
}

# Makes an array and serves it, if the test wants that.
host_start() {
  local folder=$2 kind
  kind=$(head_of "$1" host | tr -d ' ')
  [ -n "$kind" ] || return 0
  echo "$kind" >"$folder/host-kind"
  mkdir -p -m 700 "$folder/run"
  "$ZONEWEAVE" emu create "$folder/host" --drives 4 --zones 48 --zone-capacity 8M &&
    "$ZONEWEAVE" array create vol0 --level raid5 --size 400M "$folder"/host/drive* &&
    host_serve "$folder"
}

# Ends it by a signal, and waits until it is gone.
host_end() {
  local folder=$1 signal=$2 pid
  pid=$(cat "$folder/host-pid")
  kill "-$signal" "$pid"
  while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
  cat "$folder/host.log.now" >>"$folder/host.log"
}

# Requests of a test: `restart` in order, or `kill` and start again.
host_request() {
  local folder=$1 signal=TERM
  [ "$2" = kill ] && signal=KILL
  if host_end "$folder" $signal && host_serve "$folder"; then
    echo "ok the host: $2" >>"$folder/host-results"
  else
    echo "FAILED the host: $2" >>"$folder/host-results"
  fi
}

# Ends it for good, and has the checker look at the drives.
host_stop() {
  local folder=$1
  [ -e "$folder/host-pid" ] || return 0
  host_end "$folder" TERM
  if "$ZONEWEAVE" array check "$folder"/host/drive* >"$folder/check.log" 2>&1; then
    echo "ok the host: the array is in order" >>"$folder/host-results"
  else
    echo "FAILED the host: the array is not in order" >>"$folder/host-results"
  fi
  cat "$folder/host-results" >>"$folder/results"
}
