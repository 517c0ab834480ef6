package release_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const (
	root    = "github.com/fencepost/fencepost"
	command = "cmd/fencepost"
)

// module is a module of the repository that gets a tag.
type module struct {
	path, dir string // dir is relative to the repository, "" for the root
	file      *modfile.File
}

func (m module) tag(version string) string {
	if m.dir == "" {
		return version
	}
	return m.dir + "/" + version
}

// Every library can be downloaded and compiled, and the command installed, with the Go
// version of its module's go line.
func TestAReleaseCanBeUsed(t *testing.T) {
	t.Parallel()
	clone := cloneOf(t, repository(t))
	modules := released(t, clone)
	version := nextVersion(t, modules)
	proxy := t.TempDir()
	for _, m := range modules {
		git(t, clone, "tag", m.tag(version))
		serve(t, proxy, clone, m, version)
	}
	env := environment(t, proxy)
	for _, m := range modules {
		if m.dir == command {
			continue
		}
		t.Run(m.path, func(t *testing.T) {
			t.Parallel()
			user := t.TempDir()
			env := append(env, oldest(t, m)...)
			goTool(t, user, env, "mod", "init", "example.com/user")
			goTool(t, user, env, "get", m.path+"@"+version)
			program := "package main\n\nimport (\n"
			for _, pkg := range libraries(t, filepath.Join(clone, m.dir)) {
				program += fmt.Sprintf("\t_ %q\n", pkg)
			}
			program += ")\n\nfunc main() {}\n"
			require.NoError(t, os.WriteFile(filepath.Join(user, "main.go"), []byte(program), 0o644))
			goTool(t, user, env, "mod", "tidy")
			goTool(t, user, env, "build", "-o", filepath.Join(user, "program"), ".")
			require.Equal(t, version, strings.TrimSpace(goTool(t, user, env, "list", "-m", "-f", "{{.Version}}", root)))
		})
	}
	t.Run("go install", func(t *testing.T) {
		t.Parallel()
		bin := t.TempDir()
		goTool(t, bin, append(env, append(oldest(t, modules[1]), "GOBIN="+bin)...), "install", root+"/"+command+"@"+version)
		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "fencepost"), "version").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), version)
	})
	t.Run("go run in a clone", func(t *testing.T) {
		t.Parallel()
		unreleased := environment(t, t.TempDir())
		out := goTool(t, clone, append(unreleased, "GOWORK="), "run", "./"+command, "simulate", "--rounds", "1")
		require.Contains(t, out, "Verdict: the fence holds.")
	})
}

// repository returns the folder of this test's repository.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(dir, "go.work"))
	return dir
}

// cloneOf returns a clone whose last commit has the working tree of repo.
func cloneOf(t *testing.T, repo string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	git(t, ".", "clone", "-q", "--no-hardlinks", repo, clone)
	git(t, clone, "--work-tree="+repo, "add", "-A", ".")
	git(t, clone, "-c", "user.name=release", "-c", "user.email=release@example.com",
		"commit", "-q", "--allow-empty", "-m", "what is to be released")
	git(t, clone, "checkout", "-q", "-f", "HEAD")
	return clone
}

// released returns the root, the command and the modules below contrib. lab and the
// examples get no tag.
func released(t *testing.T, clone string) []module {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(clone, "contrib", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	var modules []module
	for _, folder := range append([]string{clone, filepath.Join(clone, command)}, folders...) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		require.NoError(t, err)
		file, err := modfile.Parse("go.mod", text, nil)
		require.NoError(t, err)
		dir, err := filepath.Rel(clone, folder)
		require.NoError(t, err)
		modules = append(modules, module{path: file.Module.Mod.Path, dir: strings.TrimPrefix(filepath.ToSlash(dir), "."), file: file})
	}
	return modules
}

// nextVersion returns the version of the root that the other modules require. It must be
// one version.
func nextVersion(t *testing.T, modules []module) string {
	t.Helper()
	version := ""
	for _, m := range modules[1:] {
		for _, required := range m.file.Require {
			if strings.HasPrefix(required.Mod.Path, root) {
				require.Equal(t, root, required.Mod.Path, "%s requires a module beside the root", m.path)
				require.True(t, version == "" || version == required.Mod.Version, "%s requires %s", m.path, required.Mod)
				version = required.Mod.Version
			}
		}
	}
	require.NotEmpty(t, version)
	require.NotEqual(t, "v0.0.0", version)
	return version
}

// serve writes the files of the module proxy protocol (go.dev/ref/mod#goproxy-protocol).
func serve(t *testing.T, proxy, clone string, m module, version string) {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(m.path), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	write := func(name string, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	write("list", []byte(version+"\n"))
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	require.NoError(t, err)
	write(version+".info", info)
	mod, err := m.file.Format()
	require.NoError(t, err)
	write(version+".mod", mod)
	var archive bytes.Buffer
	require.NoError(t, zip.CreateFromVCS(&archive, xmodule.Version{Path: m.path, Version: version}, clone, m.tag(version), m.dir))
	write(version+".zip", archive.Bytes())
}

// environment returns the environment of a user whose proxy has the release. Other
// modules come from this machine's module cache. With -trimpath the folder of the user's
// module cache is no reason to compile them again.
func environment(t *testing.T, proxy string) []string {
	t.Helper()
	var settings struct{ GOMODCACHE, GOPROXY string }
	require.NoError(t, json.Unmarshal([]byte(goTool(t, ".", nil, "env", "-json", "GOMODCACHE", "GOPROXY")), &settings))
	return []string{
		"GOMODCACHE=" + t.TempDir(),
		"GOPROXY=file://" + proxy + ",file://" + settings.GOMODCACHE + "/cache/download," + settings.GOPROXY,
		"GONOSUMDB=" + root, "GOWORK=off", "GOFLAGS=-modcacherw -trimpath",
	}
}

// oldest selects the Go version of m's go line. It is downloaded once into the machine's
// own module cache.
func oldest(t *testing.T, m module) []string {
	t.Helper()
	goroot := strings.TrimSpace(goTool(t, ".", []string{"GOWORK=off", "GOTOOLCHAIN=go" + m.file.Go.Version}, "env", "GOROOT"))
	return []string{"GOROOT=" + goroot, "GOTOOLCHAIN=local", "PATH=" + filepath.Join(goroot, "bin") + string(os.PathListSeparator) + os.Getenv("PATH")}
}

// libraries returns the packages of a module that a user can import.
func libraries(t *testing.T, dir string) []string {
	t.Helper()
	all := goTool(t, dir, []string{"GOWORK=off"}, "list", "-f", `{{if ne .Name "main"}}{{.ImportPath}}{{end}}`, "./...")
	var public []string
	for _, pkg := range strings.Fields(all) {
		if !strings.Contains(pkg, "/internal/") && !strings.Contains(pkg, "/examples/") {
			public = append(public, pkg)
		}
	}
	require.NotEmpty(t, public)
	return public
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
}

func goTool(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	name := "go"
	for _, setting := range env {
		if goroot, ok := strings.CutPrefix(setting, "GOROOT="); ok {
			name = filepath.Join(goroot, "bin", "go")
		}
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "go %v: %s", args, &errs)
	return out.String()
}
