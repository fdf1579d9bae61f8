
# The verbs of numapilot-lab are completed by its own script, which is loaded when it is needed.
_numapilot_or_lab() {
    local word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$word" in
            help | --color* | = | auto | always | never) ;;
            lab | bench | study)
                declare -F _numapilot__lab > /dev/null || eval "$("$1-lab" completions bash 2> /dev/null)"
                if declare -F _numapilot__lab > /dev/null; then
                    _numapilot__lab "$@"
                    return
                fi
                break
                ;;
            *) break ;;
        esac
    done
    _numapilot "$@"
}

if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -F _numapilot_or_lab -o nosort -o bashdefault -o default numapilot
else
    complete -F _numapilot_or_lab -o bashdefault -o default numapilot
fi
