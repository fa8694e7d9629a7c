// The sixteen colours of terminals, dark and light, for the log and for xterm.js. All can be read on
// the background of their scheme.

const dark = {
  background: '#14161a', foreground: '#d9dde3', cursor: '#d9dde3', cursorAccent: '#14161a', selectionBackground: '#35507a',
  colours: ['#818995', '#ff7b7b', '#7fcf8f', '#e0b860', '#7ab0ff', '#d49bf0', '#5fc9c9', '#c9ced6',
    '#9aa2ae', '#ff9d9d', '#a2e2ae', '#f2d28b', '#a3c8ff', '#e3bcf7', '#8fdede', '#ffffff'],
};
const light = {
  background: '#ffffff', foreground: '#22262b', cursor: '#22262b', cursorAccent: '#ffffff', selectionBackground: '#bcd5ff',
  colours: ['#22262b', '#b3261e', '#1a7030', '#7a5a00', '#0b57b8', '#8a2ca8', '#0a6c74', '#5c6370',
    '#5c6370', '#c9372c', '#1f7f3a', '#8a6500', '#1c66cc', '#9a3cb8', '#0f7a82', '#22262b'],
};
const names = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const scheme = matchMedia('(prefers-color-scheme: dark)');

// theme returns the colours of the present scheme as xterm.js takes them.
export function theme() {
  const { colours, ...rest } = scheme.matches ? dark : light;
  const bright = name => 'bright' + name[0].toUpperCase() + name.slice(1);
  names.forEach((name, i) => { rest[name] = colours[i]; rest[bright(name)] = colours[i + 8]; });
  return rest;
}

// onScheme calls f at each change of the scheme, until the function that it returns is called.
export function onScheme(f) {
  scheme.addEventListener('change', f);
  return () => scheme.removeEventListener('change', f);
}

// The log uses the colours as variables of CSS.
function setVariables() {
  const colours = (scheme.matches ? dark : light).colours;
  colours.forEach((c, i) => document.documentElement.style.setProperty(`--ansi-${i}`, c));
}
setVariables();
onScheme(setVariables);

// colour returns one of the 256 colours of terminals for CSS.
export function colour(n) {
  if (n < 16) return `var(--ansi-${n})`;
  if (n >= 232) { const g = 8 + (n - 232) * 10; return `rgb(${g} ${g} ${g})`; }
  const level = i => { const v = Math.floor((n - 16) / 6 ** i) % 6; return v ? 55 + v * 40 : 0; };
  return `rgb(${level(2)} ${level(1)} ${level(0)})`;
}
