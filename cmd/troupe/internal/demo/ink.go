package demo

// ink colors text for a terminal. The zero value does not.
type ink struct{ colored bool }

func (i ink) paint(code, text string) string {
	if !i.colored || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (i ink) good(text string) string   { return i.paint("32", text) }
func (i ink) bad(text string) string    { return i.paint("31", text) }
func (i ink) warn(text string) string   { return i.paint("33", text) }
func (i ink) busy(text string) string   { return i.paint("36", text) }
func (i ink) faint(text string) string  { return i.paint("2", text) }
func (i ink) strong(text string) string { return i.paint("1", text) }

func (i ink) faintUnless(strong bool, text string) string {
	if strong {
		return text
	}
	return i.faint(text)
}
