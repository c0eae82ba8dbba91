(** * The Jacobian of GradTopK is a covariance

    The derivative of the share of [i] by the score [j] is the chance that a random subset
    has both, less the product of the two shares ([share_covariance]).  Its rows sum to
    zero ([covariance_rows]). *)

From Coq Require Import Reals Lra Lia Arith List Sorted.
From Coquelicot Require Import Coquelicot.
From TopK Require Import Sums Derivative GradTopK.
Import ListNotations.
Open Scope R_scope.

(** The part of [Z] with the subsets that have [i] and [j]. *)
Definition Zij w n k i j :=
  total_weight w (filter (has j) (filter (has i) (subsets n k))).

(** The covariance of two memberships. *)
Definition covariance w n k i j := Zij w n k i j / Z w n k - share w n k i * share w n k j.

(** ** A sum over any family of subsets *)

Lemma move_same x j i : move x j (x j) i = x i.
Proof. unfold move; now destruct (Nat.eqb_spec i j) as [->|]. Qed.

Lemma weight_ext w w' s : (forall i, w i = w' i) -> weight w s = weight w' s.
Proof. intros H; induction s as [|i s IH]; simpl; [reflexivity|now rewrite IH, H]. Qed.

Lemma total_ext w w' F : (forall i, w i = w' i) -> total_weight w F = total_weight w' F.
Proof.
  intros H; induction F as [|s F IH]; simpl; [reflexivity|].
  now rewrite IH, (weight_ext w w').
Qed.

Lemma has_spec i s : has i s = true <-> In i s.
Proof.
  unfold has; rewrite existsb_exists; split.
  - intros [j [Hj E]]; apply Nat.eqb_eq in E; now subst j.
  - intros H; exists i; split; [exact H|apply Nat.eqb_refl].
Qed.

(** A product of exponentials is its own derivative if it has the moving score, and does
    not move otherwise. *)
Lemma weight_derivative x j s : NoDup s ->
  is_derive (fun t => weight (weights (move x j t)) s) (x j)
            (if has j s then weight (weights x) s else 0).
Proof.
  induction s as [|i s IH]; intros Hs; [apply (is_derive_const 1)|].
  inversion Hs as [|? ? Hi Hs']; subst; specialize (IH Hs').
  assert (Es : weight (weights (move x j (x j))) s = weight (weights x) s)
    by (apply weight_ext; intros h; unfold weights; now rewrite move_same).
  assert (Hf : is_derive (fun t => weights (move x j t) i) (x j)
                         (if Nat.eqb j i then exp (x i) else 0)).
  { destruct (Nat.eqb_spec j i) as [->|E].
    - apply (is_derive_ext exp).
      + intros t; unfold weights, move; now rewrite Nat.eqb_refl.
      + apply is_derive_Reals, derivable_pt_lim_exp.
    - apply (is_derive_ext (fun _ => exp (x i))).
      + intros t; unfold weights, move; destruct (Nat.eqb_spec i j); [lia|reflexivity].
      + apply (is_derive_const (exp (x i))). }
  evar_last.
  - apply (is_derive_mult (fun t => weights (move x j t) i)
      (fun t => weight (weights (move x j t)) s) (x j) _ _ Hf IH); intros; apply Rmult_comm.
  - rewrite Es; unfold weights at 2; rewrite move_same.
    unfold plus, mult; simpl; unfold has; simpl; fold (has j s).
    destruct (Nat.eqb_spec j i) as [->|E]; simpl.
    + replace (has i s) with false; [unfold weights; ring|].
      symmetry; apply Bool.not_true_is_false; now rewrite has_spec.
    + destruct (has j s); unfold weights; ring.
Qed.

Lemma family_derivative x j F : (forall s, In s F -> NoDup s) ->
  is_derive (fun t => total_weight (weights (move x j t)) F) (x j)
            (total_weight (weights x) (filter (has j) F)).
Proof.
  induction F as [|s F IH]; intros H; [apply (is_derive_const 0)|].
  evar_last.
  - apply (is_derive_plus (fun t => weight (weights (move x j t)) s)
      (fun t => total_weight (weights (move x j t)) F)).
    + apply weight_derivative, H; now left.
    + apply IH; intros; apply H; now right.
  - unfold plus; simpl; destruct (has j s); simpl; ring.
Qed.

Lemma sorted_NoDup s : StronglySorted gt s -> NoDup s.
Proof.
  induction s as [|i s IH]; intros H; [constructor|].
  inversion H as [|? ? Hs Hi]; subst; constructor; [|now apply IH].
  intros Hin; rewrite Forall_forall in Hi; specialize (Hi i Hin); lia.
Qed.

Lemma subsets_NoDup n k s : In s (subsets n k) -> NoDup s.
Proof. intros H; apply sorted_NoDup; now apply (subsets_complete n k). Qed.

(** ** The statements *)

Theorem share_covariance x n k i j : (k <= n)%nat ->
  is_derive (fun t => share (weights (move x j t)) n k i) (x j)
            (covariance (weights x) n k i j).
Proof.
  intros Hk; assert (Hp : 0 < Z (weights x) n k)
    by (apply Z_positive; [intros; apply exp_pos|exact Hk]).
  assert (Hw : forall h, weights (move x j (x j)) h = weights x h)
    by (intros h; unfold weights; now rewrite move_same).
  assert (EZ : Z (weights (move x j (x j))) n k = Z (weights x) n k)
    by (now apply total_ext).
  assert (Ei : Zi (weights (move x j (x j))) n k i = Zi (weights x) n k i)
    by (now apply total_ext).
  unfold share at 1; evar_last.
  - apply (is_derive_div (fun t => Zi (weights (move x j t)) n k i)
      (fun t => Z (weights (move x j t)) n k)).
    + apply (family_derivative x j (filter (has i) (subsets n k))).
      intros s Hs; apply filter_In in Hs as [Hs _]; now apply (subsets_NoDup n k).
    + apply (family_derivative x j (subsets n k)); apply subsets_NoDup.
    + rewrite EZ; lra.
  - rewrite EZ, Ei; fold (Zij (weights x) n k i j); fold (Zi (weights x) n k j).
    unfold covariance, share; field; lra.
Qed.

(** A subset has [k] entries, so the pairs with [i] are [k] times as many as the subsets. *)
Lemma has_count n s : NoDup s -> (forall i, In i s -> (i < n)%nat) ->
  ∑_(j < n) (if has j s then 1 else 0) = INR (length s).
Proof.
  induction s as [|i s IH]; intros Hs Hb; [simpl; apply sum_zero|].
  inversion Hs as [|? ? Hi Hs']; subst.
  rewrite (sum_ext n _ (fun j => (if Nat.eqb j i then 1 else 0)
    + (if has j s then 1 else 0))).
  - rewrite sum_plus, (sum_delta n i (fun _ => 1)) by (apply Hb; now left).
    rewrite IH; [|exact Hs'|intros; apply Hb; now right].
    simpl length; rewrite S_INR; ring.
  - intros j _; unfold has at 1; simpl; fold (has j s).
    destruct (Nat.eqb_spec j i) as [->|E]; simpl; [|ring].
    replace (has i s) with false; [ring|].
    symmetry; apply Bool.not_true_is_false; now rewrite has_spec.
Qed.

Lemma family_sum w n k F : (forall s, In s F -> In s (subsets n k)) ->
  ∑_(j < n) total_weight w (filter (has j) F) = INR k * total_weight w F.
Proof.
  induction F as [|s F IH]; intros H.
  - simpl; rewrite sum_zero; ring.
  - rewrite (sum_ext n _ (fun j => weight w s * (if has j s then 1 else 0)
      + total_weight w (filter (has j) F))).
    + rewrite sum_plus, sum_scal, IH by (intros; apply H; now right).
      assert (Hs : In s (subsets n k)) by (apply H; now left).
      destruct (proj1 (proj1 (subsets_complete n k) s) Hs) as [_ [Hl Hb]].
      rewrite (has_count n s (subsets_NoDup n k s Hs) Hb), Hl; simpl; ring.
    + intros j _; simpl; destruct (has j s); simpl; ring.
Qed.

Theorem covariance_rows w n k i : (k <= n)%nat -> (forall h, (h < n)%nat -> 0 < w h) ->
  ∑_(j < n) covariance w n k i j = 0.
Proof.
  intros Hk Hw; assert (HZ := Z_positive w n Hw k Hk).
  unfold covariance, Rdiv; rewrite sum_minus, sum_scal, (share_sum w n k Hk Hw).
  rewrite (sum_ext n _ (fun j => / Z w n k * Zij w n k i j)) by (intros; ring).
  rewrite sum_scal; unfold Zij.
  rewrite (family_sum w n k (filter (has i) (subsets n k))).
  - fold (Zi w n k i); unfold share; field; lra.
  - intros s Hs; now apply filter_In in Hs.
Qed.
