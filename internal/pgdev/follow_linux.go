package pgdev

import "syscall"

// followParent makes the kernel end the child when the thread that starts it
// ends. The signal survives the change of user, which the runtime makes first.
func followParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = signalImmediate }
