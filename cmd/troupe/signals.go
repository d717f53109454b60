package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endings are the signals that end a command in good order. A hangup is none if whoever
// started the command has had it ignored, as nohup does: it outlives its terminal then.
func endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// outliveReaders lets a pod go on when nobody reads its log any more: by itself, the
// runtime ends a program at its next line.
func outliveReaders() { signal.Ignore(syscall.SIGPIPE) }
