package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Show what this program was built from", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), buildLine())
			return err
		},
	}
}

// buildLine is the line of this binary.
func buildLine() string {
	build, _ := debug.ReadBuildInfo()
	return versionLine(build)
}

// versionLine renders what the go command has stamped into the binary; nil
// when it has not.
func versionLine(build *debug.BuildInfo) string {
	version, revision, changed := "(devel)", "", ""
	if build != nil {
		if build.Main.Version != "" {
			version = build.Main.Version
		}
		for _, setting := range build.Settings {
			switch {
			case setting.Key == "vcs.revision":
				revision = " " + setting.Value[:min(12, len(setting.Value))]
			case setting.Key == "vcs.modified" && setting.Value == "true":
				changed = ", changed"
			}
		}
	}
	return fmt.Sprintf("troupe %s%s%s, %s %s/%s", version, revision, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
