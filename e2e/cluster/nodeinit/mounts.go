package nodeinit

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// A node sees the machine's files, except for the few folders that make a
// machine a different machine: those are its own. All of it is mounted in the
// node's private mount namespace and disappears with the node's first process.

// OwnedDirs are the folders a node has to itself, below its folder in the
// state. They are its disk and survive a power cut; /run does not.
func OwnedDirs() map[string]string {
	return map[string]string{
		"/var/lib": "var-lib", // the state of kubelet, containerd, etcd and CNI
		"/var/log": "var-log", // container logs, where every log collector looks
		"/tmp":     "tmp",
	}
}

// kubeletSysctls are settings kubelet insists on, at the values it wants. They
// belong to the whole machine, so it is shown files instead.
func kubeletSysctls() map[string]string {
	return map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

// setUpMounts turns the mount namespace this process was started in into the
// node's.
func setUpMounts(s state.Spec, node int) error {
	c := s.Config()
	// Nothing below may travel back to the machine.
	if err := mount("", "/", "", syscall.MS_PRIVATE|syscall.MS_REC); err != nil {
		return err
	}
	// The node's own process numbers.
	if err := mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC); err != nil {
		return err
	}

	// The state and the cache may live below one of the folders about to be
	// covered; they are held open and put back in their place.
	keep := map[string]*os.File{}
	for _, dir := range []string{s.StateDir, s.CacheDir} {
		f, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("opening %s: %w", dir, err)
		}
		defer func() { _ = f.Close() }()
		keep[dir] = f
	}
	dirs := OwnedDirs()
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		source := filepath.Join(c.NodeDir(node), dirs[dir])
		if err := cover(dir, keep, func() error { return mount(source, dir, "", syscall.MS_BIND) }); err != nil {
			return err
		}
	}
	err := cover("/run", keep, func() error {
		return mount("tmpfs", "/run", "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV)
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll("/run/lock", 0o755); err != nil {
		return fmt.Errorf("creating /run/lock: %w", err)
	}

	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	for n := 1; n <= config.MaxNodes; n++ {
		hosts.WriteString(config.NodeIP(n) + " " + config.NodeName(n) + "\n")
	}
	files := map[string]string{
		"/etc/hosts":       hosts.String(),
		"/etc/hostname":    config.NodeName(node) + "\n",
		"/etc/resolv.conf": "nameserver " + config.DNSServiceIP + "\n",
	}
	for name, value := range kubeletSysctls() {
		files["/proc/sys/"+name] = value + "\n"
	}
	for i, path := range slices.Sorted(maps.Keys(files)) {
		if err := coverFile(path, files[path], i); err != nil {
			return err
		}
	}
	// Volumes with mount propagation need shared mounts; shared among the
	// node's own namespaces, that is.
	return mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC)
}

// cover mounts something over a folder, then puts back what must stay visible.
func cover(dir string, keep map[string]*os.File, mountOver func() error) error {
	if err := mountOver(); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(keep)) {
		if !strings.HasPrefix(path+"/", dir+"/") {
			continue
		}
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("keeping %s visible: %w", path, err)
		}
		held := "/proc/self/fd/" + strconv.Itoa(int(keep[path].Fd()))
		if err := mount(held, path, "", syscall.MS_BIND); err != nil {
			return err
		}
	}
	return nil
}

// coverFile shows a file of our own in place of the machine's.
func coverFile(path, content string, i int) error {
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		// A link into /run (which was just covered), or no such file at all.
		link, err := os.Readlink(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("replacing %s: %w", path, err)
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(path), link)
		}
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return fmt.Errorf("replacing %s: %w", path, err)
		}
		if err := os.WriteFile(link, []byte(content), 0o644); err != nil {
			return fmt.Errorf("replacing %s: %w", path, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	if err := os.MkdirAll("/run/covered", 0o755); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	ours := fmt.Sprintf("/run/covered/%d", i)
	if err := os.WriteFile(ours, []byte(content), 0o644); err != nil {
		return fmt.Errorf("replacing %s: %w", path, err)
	}
	return mount(ours, target, "", syscall.MS_BIND)
}

func mount(source, target, kind string, flags uintptr) error {
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", target, err)
	}
	return nil
}
