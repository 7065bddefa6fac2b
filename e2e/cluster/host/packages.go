// Package host runs programs of the machine, installs missing ones with
// apt-get, and reads the machine's capacity.
package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Requirement is something the machine must offer, and the Debian package
// that brings it.
type Requirement struct {
	what   string
	debian string
	met    func(ctx context.Context) bool
}

func program(name, debian string) Requirement {
	return Requirement{what: name, debian: debian, met: func(context.Context) bool {
		_, err := exec.LookPath(name)
		return err == nil
	}}
}

// NetworkRequirements are needed by every cluster, even one without nodes.
func NetworkRequirements() []Requirement {
	return []Requirement{
		program("ip", "iproute2"),
		program("nsenter", "util-linux"),
		program("curl", "curl"), // asks add-ons whether they answer
	}
}

// NodeRequirements are needed to run pods.
func NodeRequirements() []Requirement {
	return append(NetworkRequirements(),
		program("nft", "nftables"),  // kube-proxy and the port mapper call it
		program("mount", "mount"),   // kubelet calls it for volumes
		program("modprobe", "kmod"), // kube-proxy and containerd try it, and log an error without
	)
}

// RuncRequirements are needed to build runc, the one program that needs C.
func RuncRequirements() []Requirement {
	return []Requirement{
		program("gcc", "gcc"),
		program("pkg-config", "pkg-config"),
		{what: "C library headers", debian: "libc6-dev", met: func(context.Context) bool {
			_, err := os.Stat("/usr/include/stdio.h")
			return err == nil
		}},
		{what: "libseccomp headers", debian: "libseccomp-dev", met: func(ctx context.Context) bool {
			return exec.CommandContext(ctx, "pkg-config", "--exists", "libseccomp").Run() == nil
		}},
	}
}

// ImageRequirements are needed to assemble images from Debian packages.
func ImageRequirements() []Requirement {
	return []Requirement{program("apt-get", "apt"), program("dpkg", "dpkg")}
}

// EnsureInstalled installs what is missing, when this is root on a machine with
// apt-get, and otherwise says in one line what to install.
func EnsureInstalled(ctx context.Context, requirements []Requirement) (detail string, err error) {
	missing := unmet(ctx, requirements)
	if len(missing) == 0 {
		return "all there", nil
	}
	var whats, packages []string
	for _, r := range missing {
		whats = append(whats, r.what)
		packages = append(packages, r.debian)
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", fmt.Errorf("missing: %s; install them first (on Debian, as root: apt-get install %s)",
			strings.Join(whats, ", "), strings.Join(packages, " "))
	}
	install := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, packages...)
	if err := AptGet(ctx, "", "", install...); err != nil {
		return "", err
	}
	if still := unmet(ctx, requirements); len(still) > 0 {
		return "", fmt.Errorf("still missing after installing %s: %s", strings.Join(packages, " "), still[0].what)
	}
	return "installed " + strings.Join(packages, " "), nil
}

func unmet(ctx context.Context, requirements []Requirement) []Requirement {
	var missing []Requirement
	for _, r := range requirements {
		if !r.met(ctx) {
			missing = append(missing, r)
		}
	}
	return missing
}

// AptGet runs apt-get, and once more after refreshing the package lists: on a
// machine that was just installed they are empty, on an old one outdated. A
// configuration, a file, replaces the machine's own where the two differ.
func AptGet(ctx context.Context, dir, configuration string, args ...string) error {
	env := append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if configuration != "" {
		env = append(env, "APT_CONFIG="+configuration)
	}
	// Downloads go to folders that apt's own user may not enter.
	args = append([]string{"-o", "APT::Sandbox::User=root"}, args...)
	if _, err := Run(ctx, Options{Dir: dir, Env: env}, "apt-get", args...); err == nil {
		return nil
	}
	if _, err := Run(ctx, Options{Env: env}, "apt-get", "update", "-qq"); err != nil {
		return fmt.Errorf("refreshing the package lists: %w", err)
	}
	_, err := Run(ctx, Options{Dir: dir, Env: env}, "apt-get", args...)
	return err
}
