package workflow

// RetentionClass says for how long a run is kept once it has ended. How long
// that is for a class is the engine's to say.
type RetentionClass uint8

// The classes. They are stored with definitions: numbers stay.
const (
	RetainStandard RetentionClass = iota // of workflows that name none
	RetainShort
	RetainLong
	RetainForever

	// RetentionClasses is how many there are.
	RetentionClasses = 4
)
