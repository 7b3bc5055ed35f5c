# bash completion for paramedic: eval "$(paramedic completions bash)"
_paramedic() {
  local word="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}" words runs i
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W 'run diagnose fleet show watch logs attach repair rules cluster collector export completions --help --version' -- "$word"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do
    [ "${COMP_WORDS[i]}" = -- ] && { COMPREPLY=($(compgen -f -- "$word")); return; }
  done
  if [ "$COMP_CWORD" -gt 2 ]; then
    case "$command ${COMP_WORDS[2]}" in 'rules list'|'rules explain'|'rules replay'|'cluster lint'|'cluster env-diff'|'cluster probe'|'cluster collectives') command="$command ${COMP_WORDS[2]}" ;; esac
  fi
  case "$command" in
    'run') words='--help --name --dir --overhead-budget --capture --on --on-crash --wait-limit --notify --restarts --snapshot-budget --also --max-disk --ring-size --retries --retry-on --retry-delay --other-node --collector --start-collector --collector-token-file --collector-tls-roots'; runs=no ;;
    'diagnose') words='--help --json --dir --explain --html --force --follow'; runs=no ;;
    'fleet') words='--help --json --html --force --cache --threads'; runs=no ;;
    'show') words='--help --json --html --force --dir'; runs=yes ;;
    'watch') words='--help --dir'; runs=yes ;;
    'logs') words='--help --rank --grep --level --around --lines --json --dir'; runs=yes ;;
    'attach') words='--help --in-place --dir'; runs=yes ;;
    'repair') words='--help --retry --apply --exec --skip --rewind --rollback --return --abort --at --rank --json --dir'; runs=yes ;;
    'rules') words='--help list explain replay'; runs=no ;;
    'rules list') words='--help --json'; runs=no ;;
    'rules explain') words='--help --json'; runs=no ;;
    'rules replay') words='--help --json --dir'; runs=yes ;;
    'cluster') words='--help lint env-diff probe collectives'; runs=no ;;
    'cluster lint') words='--help --json'; runs=no ;;
    'cluster env-diff') words='--help --json --dir'; runs=yes ;;
    'cluster probe') words='--help --json --hosts --port --token --self --wait --size'; runs=no ;;
    'cluster collectives') words='--help --json --dir'; runs=no ;;
    'collector') words='--help --dir --listen --token-file --tls-certificate --tls-key --until-end --max-disk'; runs=no ;;
    'export') words='--help --to --dir'; runs=yes ;;
    'completions') words='--help'; runs=no ;;
    *) words='' runs=no ;;
  esac
  if [ "$runs" = yes ]; then
    words="$words $(command ls "${PARAMEDIC_DIR:-paramedic-runs}" 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word"))
}
complete -o filenames -F _paramedic paramedic
