#compdef fencepost
# zsh completion for fencepost
_fencepost() {
	local -a found
	local word help
	while IFS=$'\t' read -r word help; do
		found+=("${word//:/\\:}:$help")
	done < <("${(Q)words[1]}" complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
	if ((${#found})); then _describe fencepost found; else _files; fi
}
# A file of fpath runs as the function itself.
if [[ ${funcstack[1]} == _fencepost ]]; then _fencepost; else compdef _fencepost fencepost; fi
