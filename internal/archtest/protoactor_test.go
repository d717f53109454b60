package archtest

import (
	"go/ast"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// protoactorFiles may import protoactor-go: the shells, and rooms that send them
// messages from outside.
var protoactorFiles = []string{
	"actors/", "internal/sim/", "simtest/", "examples/",
	"engine.go", "engine_config.go", // PID, and the embedder's own actor system
}

// protoactorSymbols is all of the package that we rely on. What is missing was
// found to race, to stop silently or to read the real clock (docs/adr/0002).
var protoactorSymbols = []string{
	// the system
	"ActorSystem", "NewActorSystem", "ConfigOption", "WithLoggerFactory", "RootContext", "PID",
	// one actor
	"Actor", "Context", "Props", "PropsOption", "PropsFromProducer", "PropsFromFunc", "Producer",
	"WithOnInit", "WithMailbox", "WithDispatcher",
	// its life
	"Started", "Stopping", "Stopped", "Restarting", "Terminated",
	// our own supervision
	"SupervisorStrategy", "Supervisor", "RestartStatistics",
	// mailboxes: ours, and that of the simulation
	"Unbounded", "Mailbox", "MailboxProducer", "MessageInvoker", "Dispatcher", "SuspendMailbox", "ResumeMailbox", "MessageEnvelope",
	// messages to actors that are gone
	"DeadLetterEvent",
	// a light copy of a system, for simulations
	"ProcessRegistryValue", "SliceMap", "NewRootContext", "NewGuardians", "NewDeadLetter", "NewMetrics",
}

// protoactorMethods are methods of its types that stay unused, for the same
// reasons. Without types a method is known by its name only, so the rule holds
// in files that import the package.
var protoactorMethods = []string{
	"ReenterAfter", "RequestFuture", "AwaitFuture", "PipeTo", "PoisonFuture", "StopFuture", "SetReceiveTimeout",
	"CancelReceiveTimeout", "Stash", "Unstash", "UnstashAll", "Shutdown",
}

func TestProtoactorStaysSmall(t *testing.T) {
	t.Parallel()
	check(t, protoactorUse)
}

// protoactorUse finds imports of protoactor-go outside its files, and symbols
// and methods that are not ours to use.
func protoactorUse(s source) []string {
	if s.syntax == nil || s.isTest() {
		return nil
	}
	name := ""
	for _, spec := range s.syntax.Imports {
		if spec.Path.Value == `"`+protoactor+`"` {
			name = importName(spec)
		}
	}
	if name == "" {
		return nil
	}
	var findings []string
	if !listed(protoactorFiles, s.path) {
		findings = append(findings, s.path+": only the shells import protoactor-go")
	}
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, isName := selector.X.(*ast.Ident)
		switch {
		case isName && of.Name == name && of.Obj == nil && !slices.Contains(protoactorSymbols, selector.Sel.Name):
			findings = append(findings, s.at(selector)+": "+name+"."+selector.Sel.Name+" is not in protoactorSymbols")
		case slices.Contains(protoactorMethods, selector.Sel.Name):
			findings = append(findings, s.at(selector)+": "+selector.Sel.Name+" of protoactor-go is not used")
		}
		return true
	})
	return findings
}

func TestProtoactorFindsEachKind(t *testing.T) {
	t.Parallel()
	head := "package p\nimport \"" + protoactor + "\"\n"
	good := head + "func f(c actor.Context, p *actor.PID) { c.Send(p, 1) }\n"
	require.Empty(t, protoactorUse(parse(t, "actors/a.go", good)))
	require.Empty(t, protoactorUse(parse(t, "lifecycle/a_test.go", good)))
	require.Len(t, protoactorUse(parse(t, "lifecycle/a.go", good)), 1)
	for _, bad := range []string{
		"var s = actor.NewOneForOneStrategy(1, 1, nil)",
		"func f(c actor.Context) { c.ReenterAfter(nil, nil) }",
		"func f(c actor.Context) { c.SetReceiveTimeout(1) }",
	} {
		require.Len(t, protoactorUse(parse(t, "actors/a.go", head+bad)), 1, bad)
	}
}
