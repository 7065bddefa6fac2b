// Command sharedserver runs a command, such as go test, with API servers that the
// tests of all packages share.
package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: sharedserver [-servers N] CRD-FOLDER COMMAND [ARGUMENT...]")
		flag.PrintDefaults()
	}
	servers := flag.Int("servers", 1, "the `number` of servers, each of which one package uses at a time")
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // without one, it warns with a stack after 30 seconds
	if flag.NArg() < 2 || *servers < 1 {
		flag.Usage()
		os.Exit(2)
	}
	err := run(*servers, flag.Arg(0), flag.Arg(1), flag.Args()[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode()) // the command has printed why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(servers int, crds, name string, args ...string) (err error) {
	// The terminal sends its signals to the command too. The servers have to outlive
	// the command.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var folders []string
	for i := range servers {
		s, startErr := testkit.StartServer(crds)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, s.Stop()) }()
		folder, unlink := stable(s.Folder, i)
		defer unlink()
		folders = append(folders, folder)
	}
	cmd := exec.Command(name, args...) //nolint:gosec // the command is chosen by the caller
	cmd.Env = append(os.Environ(), testkit.SharedServers+"="+strings.Join(folders, string(filepath.ListSeparator)))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", name, err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals:
				_ = cmd.Process.Signal(s) // it may have ended
			case <-ended:
				return
			}
		}
	}()
	return cmd.Wait()
}

// stable returns a link to the folder of a server that has the same name in every run: go test
// does not use a cached result if an environment variable that the test reads has
// changed. If another run in the same directory has the link, stable returns the
// folder.
func stable(folder string, server int) (string, func()) {
	link, unlink, err := linked(folder, server)
	if err != nil {
		return folder, func() {}
	}
	return link, unlink
}

func linked(folder string, server int) (string, func(), error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil, err
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(wd)) // never fails
	link := filepath.Join(cache, "platform-operator", "sharedserver", fmt.Sprintf("%x-%d", hash.Sum64(), server))
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		return "", nil, err
	}
	lock, err := os.OpenFile(link+".lock", os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the path is chosen by this program
	if err != nil {
		return "", nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	_ = os.Remove(link) // of a run that was killed
	if err := os.Symlink(folder, link); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	return link, func() {
		_ = os.Remove(link)
		_ = lock.Close()
	}, nil
}
