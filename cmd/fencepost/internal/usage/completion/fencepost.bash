# bash completion for fencepost
_fencepost() {
	# Bash cuts words at = and :, as in --listen=127.0.0.1:8080, and replaces only the part behind the last one.
	local line=${COMP_LINE:0:COMP_POINT} words word last
	read -ra words <<<"$line"
	case $line in *[[:space:]]) words+=("") ;; esac
	last=${words[${#words[@]} - 1]}
	COMPREPLY=()
	while IFS=$'\t' read -r word _; do
		COMPREPLY+=("${word#"${last%"${last##*[=:]}"}"}")
	done < <("$1" complete -- "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _fencepost fencepost
