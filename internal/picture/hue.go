package picture

// hues is how many colours writers have. After that they begin again: a lane's
// name tells, not its colour. Red is for what is broken.
const hues = 6
