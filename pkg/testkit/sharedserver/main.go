// Command sharedserver runs a command, such as go test, with an API server that the
// tests of all packages share.
package main

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: sharedserver CRD-FOLDER COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2], os.Args[3:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(exit.ExitCode()) // the command has printed why
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(crds, name string, args ...string) (err error) {
	// The terminal sends its signals to the command too. The server has to outlive
	// the command.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	s, err := testkit.StartServer(crds)
	if err != nil {
		return err
	}
	defer func() {
		if stopped := s.Stop(); err == nil {
			err = stopped
		}
	}()
	cmd := exec.Command(name, args...) //nolint:gosec // the command is chosen by the caller
	folder, unlink := stable(s.Folder)
	defer unlink()
	cmd.Env = append(os.Environ(), testkit.SharedServer+"="+folder)
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

// stable returns a link to the folder that has the same name in every run: go test
// does not use a cached result if an environment variable that the test reads has
// changed. If another run in the same directory has the link, stable returns the
// folder.
func stable(folder string) (string, func()) {
	link, unlink, err := linked(folder)
	if err != nil {
		return folder, func() {}
	}
	return link, unlink
}

func linked(folder string) (string, func(), error) {
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
	link := filepath.Join(cache, "platform-operator", "sharedserver", strconv.FormatUint(hash.Sum64(), 16))
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
