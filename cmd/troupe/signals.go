package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endings are the signals that end a command in good order. A hangup is not among them if
// the command was started with it ignored, as by nohup: it outlives its terminal then.
func endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// outliveReaders lets a pod continue after the reader of its log is gone. By default the
// runtime ends such a program at its next line.
func outliveReaders() { signal.Ignore(syscall.SIGPIPE) }
